"""The states of the sources of a worker, and what follows from them for the worker itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from app.edge.joint.joint import COMPLETED, FAILED, RUNNING, JointInference
from app.joint_inference.model.sources import SOURCES, NamedSource, SourceState, SourceStatus
from app.joint_inference.model.status import Reason
from app.joint_inference.model.stream import STREAM, StreamEnd
from app.kit.clock import now, to_text
from app.kit.text.json_values import JsonObject


class SourceTracker:
    """For any thread."""

    def __init__(
        self, joint: JointInference, sources: Sequence[NamedSource], *, clock: Callable[[], datetime] = now
    ) -> None:
        self._joint = joint
        self._clock = clock
        self._lock = threading.Lock()
        at = to_text(clock())
        self._states = {source.name: SourceState(source.name, SourceStatus.OPENING, at) for source in sources}
        self._ends = dict[str, StreamEnd]()

    def has_frame(self, name: str, *, is_hard: bool, is_still: bool) -> None:
        """A frame has come.

        Args:
            name: of its source.
            is_still: it was not looked at, because nothing has moved.
        """
        at = to_text(self._clock())
        with self._lock:
            state = self._enter(name, SourceStatus.RUNNING, at)
            self._states[name] = replace(
                state, last_frame_at=at, frames=state.frames + 1 - is_still, hard=state.hard + is_hard
            )
            self._ends.pop(name, None)
            self._conclude()

    def count(self, name: str, *, still: int, damaged: int) -> None:
        """Frames of a source that were not answered.

        Args:
            still: number of those in which nothing had moved, so far.
            damaged: number of those that cannot be read, so far.
        """
        with self._lock:
            state = self._states[name]
            if (state.still, state.damaged) != (still, damaged):
                self._states[name] = replace(state, still=still, damaged=damaged)
                self._conclude()

    def fails(self, name: str, reason: Reason, message: str) -> None:
        """A source cannot be opened, or broke off."""
        self._end(name, SourceStatus.NO_SIGNAL, StreamEnd(reason, message))

    def ends(self, name: str, message: str) -> None:
        """A source was read to its end."""
        self._end(name, SourceStatus.ENDED, StreamEnd(Reason.SOURCE_ENDED, message))

    def _end(self, name: str, status: SourceStatus, end: StreamEnd) -> None:
        with self._lock:
            state = self._enter(name, status, to_text(self._clock()))
            self._states[name] = replace(state, message=end.message)
            self._ends[name] = end
            self._conclude()

    def _enter(self, name: str, status: SourceStatus, at: str) -> SourceState:
        state = self._states[name]
        return state if state.status is status else replace(state, status=status, since=at, message="")

    def _conclude(self) -> None:
        """Sets the status of the worker, and what it reports."""
        states, joint = list(self._states.values()), self._joint
        statuses = {state.status for state in states}
        if statuses <= {SourceStatus.ENDED}:
            joint.status = COMPLETED
        else:
            joint.status = FAILED if statuses <= {SourceStatus.ENDED, SourceStatus.NO_SIGNAL} else RUNNING
        joint.detail[STREAM] = self._stream_end()
        joint.detail[SOURCES] = [vars(state) for state in states]
        for key in ("damaged", "still"):
            if total := sum(getattr(state, key) for state in states):
                joint.detail[f"{key}Number"] = total

    def _stream_end(self) -> JsonObject:
        """Why no frames come, or not all: failures if there are any."""
        failed = {name: end for name, end in self._ends.items() if end.is_failure}
        ends = failed or (self._ends if len(self._ends) == len(self._states) else {})
        if not ends:
            return {}
        is_partial = bool(failed) and len(self._ends) < len(self._states)
        message = "\n".join(f"{name}: {end.message}" if name else end.message for name, end in ends.items())
        return replace(next(iter(ends.values())), message=message, is_partial=is_partial).to_json()
