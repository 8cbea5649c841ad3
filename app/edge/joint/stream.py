"""The stream of an edge worker: each frame of its source goes to the small model."""

from __future__ import annotations

import logging
import threading

from app.edge.joint.joint import COMPLETED, FAILED, RUNNING, JointInference
from app.inference.errors import DecoderMissing, InferenceFailed
from app.inference.sources import Frame, open_source
from app.joint_inference.model.status import Reason
from app.joint_inference.model.stream import STREAM, StreamEnd
from app.kit.errors import ModelmillError
from app.kit.network.addresses import without_credentials

PAUSE_S = 5.0
FAILED_FRAME_S = 0.1
logger = logging.getLogger(__name__)


class SourceStream:
    """Runs in a thread of its own. A source that ends completes the worker; a broken one is reopened after a pause."""

    def __init__(self, joint: JointInference) -> None:
        self.joint = joint
        self._name = ""
        self._gate = joint.options.gate.motion_gate()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop after the current frame; do not wait longer than a second for the source."""
        self._stopping.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._frames()
            except ModelmillError as error:
                is_decoder = isinstance(error, DecoderMissing)
                self._fail_source(
                    Reason.DECODER_MISSING if is_decoder else Reason.SOURCE_UNAVAILABLE,
                    f"{error.message}. {error.hint}".strip(),
                )
            except Exception as error:
                logger.exception("The stream has met a fault")
                self._fail_source(Reason.SOURCE_UNAVAILABLE, f"{type(error).__name__}: {error}")
            else:
                self._complete()
                return
            self._stopping.wait(PAUSE_S)

    def _frames(self) -> None:
        options = self.joint.options
        source = open_source(options.source, fps=options.fps, loop=options.loop)
        self._name, waits = source.name, options.waits(is_live=source.is_live)
        try:
            for frame in source:
                if self._stopping.is_set():
                    return
                self._process(frame, waits=waits)
                self.joint.detail["damagedNumber"] = source.damaged
        finally:
            self.joint.detail["damagedNumber"] = source.damaged
            source.close()

    def _process(self, frame: Frame, *, waits: bool) -> None:
        """Submit a frame. One that the model cannot process does not end the stream."""
        picture, crop = self.joint.options.gate.part_of(frame.picture)
        if not self._gate.passes(picture):
            self.joint.detail["stillNumber"] = self._gate.held
            self._mark_running()
            return
        try:
            self.joint.submit(picture, id=f"{frame.index:08d}", origin=frame.origin, waits=waits, crop=crop)
        except InferenceFailed as error:
            self._mark_failed(f"{frame.origin}: {error.message}")
            self._stopping.wait(FAILED_FRAME_S)
        else:
            self._mark_running()

    def _mark_running(self) -> None:
        self.joint.status = RUNNING
        self.joint.detail[STREAM] = {}

    def _complete(self) -> None:
        self.joint.status = COMPLETED
        if not self._stopping.is_set():
            message = f"{self._name} has been read to its end."
            self.joint.detail[STREAM] = StreamEnd(Reason.SOURCE_ENDED, message).to_json()

    def _fail_source(self, reason: Reason, message: str) -> None:
        self._mark_failed(message)
        self.joint.detail[STREAM] = StreamEnd(reason, message).to_json()

    def _mark_failed(self, message: str) -> None:
        logger.warning("The stream of %s: %s", without_credentials(self.joint.options.source), message)
        self.joint.status = FAILED
        self.joint.note(message)
