"""What users are shown of a task: values, made by the verbs beside this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.training.model import Attempt, Conversion, State, Task, Waiting, WaitingCode
from app.training.model.waiting_reason import in_words


@dataclass(frozen=True)
class AttemptFolder:
    """Where the files of an attempt, or a task, are, as users name it. trash_at, purge_at: once it has ended; path ""
    when gone."""

    path: str
    is_trashed: bool
    trash_at: datetime | None
    purge_at: datetime | None


@dataclass(frozen=True)
class TaskView:
    """A task with all that its page shows. ahead: how many wait before it, None when it does not wait. artifacts: ONNX
    models that the last attempt left, as paths in its folder. folders: by attempt number. checkpoints: the folder that
    all attempts share; None before it has one."""

    task: Task
    attempts: Sequence[Attempt] = ()
    ahead: int | None = None
    folders: Mapping[int, AttemptFolder] = field(default_factory=dict)
    artifacts: Sequence[str] = ()
    conversions: Sequence[Conversion] = ()
    checkpoints: AttemptFolder | None = None

    @property
    def may_still_run(self) -> bool:
        """It was let go, and Ray has not said since then that its program ended."""
        return self.task.state is State.CANCELED and bool(self.attempts) and self.attempts[-1].ended_at is None

    @property
    def waiting(self) -> Waiting | None:
        """Why it waits, with how many come first: that changes with every task that goes, and is stored with none."""
        waiting = self.task.waiting
        if waiting is None or waiting.code is not WaitingCode.BEHIND:
            return waiting
        return Waiting(waiting.code, {**waiting.facts, "ahead": self.ahead or 0})

    @property
    def waiting_reason(self) -> str:
        """As a sentence; empty when it does not wait."""
        if not self.task.is_waiting:
            return ""
        return in_words(self.waiting) if self.waiting else "waiting: the scheduler has not looked at it yet"


@dataclass(frozen=True)
class LogView:
    """The last lines of an attempt's log, as far as it was copied. data: their bytes; lines: how many they are;
    is_whole: that is all of it; size_bytes: of the whole copy."""

    attempt: Attempt
    data: bytes
    lines: int
    is_whole: bool
    size_bytes: int

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")
