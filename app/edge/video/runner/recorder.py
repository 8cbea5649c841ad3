"""Records the drawn picture of a job into a ring of video segments on the node.

It takes at most MOST_OF_A_CORE: where drawing and encoding cost more, it records fewer frames per second. A full disk
or a missing encoder is noted in the job's events, and the job continues.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from app.edge.media.paced_thread import PacedThread
from app.edge.media.picture_sizes import Size, even_size, resize_picture, size_of
from app.edge.media.video_writer import NO_ENCODER, VideoFormat, available_format
from app.edge.video.runner.preview import PreviewScene
from app.edge.video.runner.video_segments import SegmentRing, SegmentWriter, clip_of
from app.inference.prediction import Picture
from app.kit.files import NO_SPACE
from app.kit.text.json_form import JsonDocument
from app.video.model.drawn_video import Recording

FOLDER = "recording"
"""In the folder of the job."""
SEGMENT_S = 10.0
"""Seconds of a segment: what a killed process loses at most."""
GAP_S = 5.0
"""Seconds without a picture after which a segment ends."""
MOST_OF_A_CORE = 0.1
DISK_FULL = "the disk of the node is full"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecordingState(JsonDocument):
    """The state of a recording."""

    begins_s: float | None
    """The time of its first picture, in seconds since 1970; None: there is none yet."""
    ends_s: float | None
    size_bytes: int
    core_share: float
    """The share of a core that drawing and encoding take."""
    problem: str
    """Why nothing is recorded now; empty: it is."""


class Recorder(PacedThread[PreviewScene]):
    """Records scenes.

    Args:
        limits: of the recording.
        folder: of the job.
        draw: returns the picture of a scene.
        note: called with the begin and the end of a problem, for the job's events.
        clock: seconds since 1970.
    """

    FAILING: ClassVar[str] = "Nothing is recorded"
    WORKS_AGAIN: ClassVar[str] = "It is recorded again."

    def __init__(
        self,
        limits: Recording,
        folder: Path,
        draw: Callable[[PreviewScene], Picture],
        note: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("recorder", draw, note, fps=limits.fps, most_of_a_core=MOST_OF_A_CORE, clock=clock)
        self._limits = limits
        self._ring = SegmentRing(folder / FOLDER, limits)
        self._format: VideoFormat | None = available_format()
        self._writer: SegmentWriter | None = None
        self._size: Size | None = None
        self._writing = threading.Lock()

    def start(self) -> None:
        if self._format is None:
            self._fail(NO_ENCODER)
        else:
            super().start()

    def state(self) -> RecordingState:
        with self._writing:
            writer, begins_s, ends_s = self._writer, self._ring.begins_s, self._ring.ends_s
            if writer is not None:
                begins_s = writer.begins_s if begins_s is None else min(begins_s, writer.begins_s)
                ends_s = writer.ends_s
            problem = self._problem if self._is_failing else ""
            return RecordingState(begins_s, ends_s, self._ring.size_bytes, round(self._share, 4), problem)

    def clip(self, begins_s: float, ends_s: float) -> tuple[bytes, str]:
        """Returns the recording of a time, and its media type.

        Args:
            begins_s: seconds since 1970.
            ends_s: seconds since 1970.

        Returns:
            An empty clip if nothing is recorded of this time.

        Raises:
            RuntimeError: It cannot be read.
        """
        with self._writing:
            if self._writer is not None and self._writer.begins_s <= ends_s and self._writer.ends_s >= begins_s:
                self._finish_segment()
            segments = self._ring.between(begins_s, ends_s)
            if not segments or self._format is None:
                return b"", ""
            try:
                return clip_of(segments, begins_s, ends_s, self._format.container), self._format.media_type
            except Exception as error:  # those of PyAV have no class in common
                raise RuntimeError(f"The recording cannot be read: {error}") from error

    def close(self) -> None:
        """Stores what was recorded last."""
        super().close()
        with self._writing:
            self._finish_segment()

    def _take(self, scene: PreviewScene, at_s: float) -> float:
        if self._format is not None:
            with self._writing:
                self._record(scene, at_s, self._format)
        return 0.0

    def _record(self, scene: PreviewScene, at_s: float, format: VideoFormat) -> None:
        try:
            writer = self._writer
            if writer and not (writer.begins_s <= at_s < writer.begins_s + SEGMENT_S and at_s - writer.ends_s < GAP_S):
                self._finish_segment()
            picture = self._draw(scene)
            size = self._size = self._size or even_size(size_of(picture), self._limits.width)
            if self._writer is None:
                self._writer = SegmentWriter(format, size, at_s)
            self._writer.add(resize_picture(picture, size), at_s)
        except Exception as error:  # PyAV raises anything; the next segment begins anew
            logger.exception("Frame %s cannot be recorded", scene.number)
            self._writer = None
            self._fail(f"encoding has failed: {type(error).__name__}"[:100])

    def _finish_segment(self) -> None:
        writer, self._writer = self._writer, None
        if writer is None or self._format is None:
            return
        try:
            self._ring.add(writer.close(), writer.begins_s, writer.ends_s, self._format.container)
        except Exception as error:  # those of PyAV have no class in common
            logger.exception("A segment cannot be stored")
            is_full = isinstance(error, OSError) and error.errno in NO_SPACE
            self._fail(DISK_FULL if is_full else f"writing has failed: {type(error).__name__}")
            return
        self._recover()


class SwitchableRecorder:
    """A recorder that is there while the job is to be recorded. See Recorder for `folder`, `draw` and `note`."""

    def __init__(self, folder: Path, draw: Callable[[PreviewScene], Picture], note: Callable[[str], None]) -> None:
        self.recorder: Recorder | None = None
        self._folder, self._draw, self._note = folder, draw, note
        self._limits: Recording | None = None
        self._is_started = False

    def follow(self, limits: Recording | None) -> None:
        """Records within these limits from now on; None: no longer, and what was recorded is deleted."""
        if limits == self._limits:
            return
        self.close()
        self._limits = limits
        self.recorder = Recorder(limits, self._folder, self._draw, self._note) if limits else None
        if limits is None:
            shutil.rmtree(self._folder / FOLDER, ignore_errors=True)
        elif self._is_started:
            self.start()

    def start(self) -> None:
        self._is_started = True
        if self.recorder is not None:
            self.recorder.start()

    def show(self, scene: PreviewScene) -> None:
        if (recorder := self.recorder) is not None:
            recorder.show(scene)

    def close(self) -> None:
        if self.recorder is not None:
            self.recorder.close()
