"""What users are shown of a task: values, made by the verbs beside this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.training.model import Attempt, Conversion, State, Task, Waiting, WaitingCode
from app.training.model.waiting_reason import in_words


@dataclass(frozen=True)
class AttemptFolder:
    """Where the files of an attempt, or of a task, are."""

    path: str
    """As users name it; "" once it is gone."""
    is_trashed: bool
    trash_at: datetime | None
    """None until it has ended."""
    purge_at: datetime | None
    """None until it has ended."""


@dataclass(frozen=True)
class TaskView:
    """A task with all that its page shows."""

    task: Task
    attempts: Sequence[Attempt] = ()
    """Oldest first; in lists the last one alone."""
    ahead: int | None = None
    """How many wait before it; None when it does not wait."""
    folders: Mapping[int, AttemptFolder] = field(default_factory=dict)
    """By attempt number."""
    artifacts: Sequence[str] = ()
    """ONNX models that the last attempt left, as paths in its folder."""
    conversions: Sequence[Conversion] = ()
    checkpoints: AttemptFolder | None = None
    """The folder that all attempts share; None before it has one."""

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
    """The last lines of an attempt's log, as far as it was copied."""

    attempt: Attempt
    data: bytes
    lines: int
    """How many lines the data has."""
    is_whole: bool
    """The data is all of the log."""
    size_bytes: int
    """Of the whole copy."""
    processes: Sequence[str] = ()
    """Which wrote into it, as far as it was looked at."""
    is_cut: bool = False
    """Its beginning, or a part of it, was dropped, for it was too long."""

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")
