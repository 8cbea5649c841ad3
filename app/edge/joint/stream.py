"""The stream of an edge worker: each frame of its source to the small model. Of a live one none waits for the cloud."""

from __future__ import annotations

import logging
import threading

from app.edge.joint.joint import COMPLETED, FAILED, RUNNING, JointInference
from app.inference.errors import DecoderMissing, InferenceFailed
from app.inference.sources import Frame, open_source
from app.joint_inference.model.status import Reason
from app.joint_inference.model.stream import STREAM, StreamEnd
from app.kit.errors import ModelmillError

PAUSE_S = 5.0
FAILED_FRAME_S = 0.1
logger = logging.getLogger(__name__)


class SourceStream:
    """Runs in a thread of its own. A source that ends is completed; one that breaks is tried again after a pause."""

    def __init__(self, joint: JointInference) -> None:
        self.joint = joint
        self._name = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Returns when the frame under way is over, or the source does not give one within a second."""
        self._stopping.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._frames()
            except ModelmillError as error:
                is_decoder = isinstance(error, DecoderMissing)
                self._gone(
                    Reason.DECODER_MISSING if is_decoder else Reason.SOURCE_UNAVAILABLE,
                    f"{error.message}. {error.hint}".strip(),
                )
            except Exception as error:
                logger.exception("The stream has met a fault")
                self._gone(Reason.SOURCE_UNAVAILABLE, f"{type(error).__name__}: {error}")
            else:
                self._over()
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
                self._look_at(frame, waits=waits)
                self.joint.detail["damagedNumber"] = source.damaged
        finally:
            self.joint.detail["damagedNumber"] = source.damaged
            source.close()

    def _look_at(self, frame: Frame, *, waits: bool) -> None:
        """One that the model cannot look at does not end the stream."""
        try:
            self.joint.submit(frame.picture, id=f"{frame.index:08d}", origin=frame.origin, waits=waits)
        except InferenceFailed as error:
            self._broken(f"{frame.origin}: {error.message}")
            self._stopping.wait(FAILED_FRAME_S)
        else:
            self.joint.status = RUNNING
            self.joint.detail[STREAM] = {}

    def _over(self) -> None:
        self.joint.status = COMPLETED
        if not self._stopping.is_set():
            said = f"{self._name} has been read to its end."
            self.joint.detail[STREAM] = StreamEnd(Reason.SOURCE_ENDED, said).to_json()

    def _gone(self, reason: Reason, said: str) -> None:
        self._broken(said)
        self.joint.detail[STREAM] = StreamEnd(reason, said).to_json()

    def _broken(self, said: str) -> None:
        logger.warning("The stream of %s: %s", self.joint.options.source, said)
        self.joint.status = FAILED
        self.joint.note(said)
