"""The streams of an edge worker: each frame of its sources goes to the small model."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from app.edge.joint.joint import COMPLETED, FAILED, RUNNING, JointInference
from app.edge.joint.stream_broadcasts import StreamBroadcasts
from app.inference.errors import DecoderMissing, InferenceFailed
from app.inference.sources import Frame, open_source
from app.joint_inference.model.sources import SOURCES, NamedSource, SourceState, SourceStatus
from app.joint_inference.model.status import Reason
from app.joint_inference.model.stream import STREAM, StreamEnd
from app.kit.clock import now, to_text
from app.kit.errors import ModelmillError
from app.kit.network.addresses import without_credentials
from app.kit.text.json_values import JsonObject

PAUSE_S = 5.0
FAILED_FRAME_S = 0.1
logger = logging.getLogger(__name__)


class SourceStreams:
    """All streams of a worker. When each has ended, the worker is complete."""

    def __init__(self, joint: JointInference, media_server: str = "", node: str = "") -> None:
        """For media_server and node, see StreamBroadcasts."""
        self._joint, sources = joint, joint.options.sources
        tracker, self._broadcasts = SourceTracker(joint, sources), StreamBroadcasts(joint, media_server, node)
        self._streams = [SourceStream(joint, source, tracker) for source in sources]

    def start(self) -> None:
        self._broadcasts.start()
        for stream in self._streams:
            stream.start()

    def close(self) -> None:
        """Stop after the current frames; do not wait longer than a second for the sources.

        The worker uploads nothing more: a frame that waits for a place in the queue gets the small model's answer.
        """
        for stream in self._streams:
            stream.stop()
        self._joint.stop_uploads()
        for stream in self._streams:
            stream.close()
        self._broadcasts.close()


class SourceStream:
    """Runs in a thread of its own. A broken source is reopened after a pause."""

    def __init__(self, joint: JointInference, source: NamedSource, tracker: SourceTracker) -> None:
        self.joint = joint
        self.source = source
        self._tracker = tracker
        self._gate = joint.options.gate.motion_gate()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stream {source.name}".strip(), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                title = self._read_frames()
            except ModelmillError as error:
                is_decoder = isinstance(error, DecoderMissing)
                self._fail(
                    Reason.DECODER_MISSING if is_decoder else Reason.SOURCE_UNAVAILABLE,
                    f"{error.message}. {error.hint}".strip(),
                )
            except Exception as error:  # a runtime or a decoder raises anything; the source is opened again
                logger.exception("The stream has met a fault")
                self._fail(Reason.SOURCE_UNAVAILABLE, f"{type(error).__name__}: {error}")
            else:
                if not self._stopping.is_set():
                    self._tracker.ends(self.source.name, f"{title} has been read to its end.")
                return
            self._stopping.wait(PAUSE_S)

    def _read_frames(self) -> str:
        """Returns the name of the source at its end."""
        options = self.joint.options
        source = open_source(self.source.source, fps=options.fps, loop=options.loop)
        waits = options.waits(is_live=source.is_live)
        try:
            for frame in source:
                if self._stopping.is_set():
                    break
                self._process(frame, waits=waits)
                self._tracker.count(self.source.name, still=self._gate.held, damaged=source.damaged)
        finally:
            self._tracker.count(self.source.name, still=self._gate.held, damaged=source.damaged)
            source.close()
        return source.name

    def _process(self, frame: Frame, *, waits: bool) -> None:
        """Submit a frame. One that the model cannot process does not end the stream."""
        name = self.source.name
        picture, crop = self.joint.options.gate.part_of(frame.picture)
        is_still, is_hard = not self._gate.passes(picture), False
        try:
            if not is_still:
                id = f"{name}-{frame.index:08d}" if name else f"{frame.index:08d}"
                pending = self.joint.submit(picture, id=id, origin=frame.origin, waits=waits, crop=crop, source=name)
                is_hard = pending.verdict.is_hard
        except InferenceFailed as error:
            self._note(f"{frame.origin}: {error.message}")
            self.joint.status = FAILED  # until a frame succeeds
            self._stopping.wait(FAILED_FRAME_S)
        else:
            self._tracker.has_frame(name, is_hard=is_hard, is_still=is_still)

    def _fail(self, reason: Reason, message: str) -> None:
        self._note(message)
        self._tracker.fails(self.source.name, reason, message)

    def _note(self, message: str) -> None:
        logger.warning("The stream of %s: %s", without_credentials(self.source.source), message)
        self.joint.note(message)


class SourceTracker:
    """The states of the sources of a worker, and what follows from them for the worker itself. For any thread."""

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
