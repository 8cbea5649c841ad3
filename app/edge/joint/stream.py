"""The streams of an edge worker: each frame of its sources goes to the small model."""

from __future__ import annotations

import logging
import threading

from app.edge.joint.joint import FAILED, JointInference
from app.edge.joint.source_tracker import SourceTracker
from app.edge.joint.stream_broadcasts import StreamBroadcasts
from app.inference.errors import DecoderMissing, InferenceFailed
from app.inference.sources import Frame, open_source
from app.joint_inference.model.sources import NamedSource
from app.joint_inference.model.status import Reason
from app.kit.errors import ModelmillError
from app.kit.network.addresses import without_credentials

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
