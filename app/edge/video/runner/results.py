"""The results of processed and tracked frames: rows, scenes to draw, figures.

Between processed frames, boxes are tracked: each is searched near its last position on a small gray picture.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from app.edge.media.picture_sizes import Size, size_of
from app.edge.video.runner.checkpoint import CheckpointFile
from app.edge.video.runner.frame_context import CapturedFrame, DagRequirements, FrameOutcome, counts_of
from app.edge.video.runner.frame_workers import FrameResult
from app.edge.video.runner.object_details import carry_details, details_of
from app.edge.video.runner.plan_metrics import PlanMetrics
from app.edge.video.runner.preview import PreviewRenderer, PreviewScene
from app.edge.video.runner.quality import ReferenceSampler
from app.edge.video.runner.reporter import Reporter
from app.edge.video.runner.resize import ratio_of, scale_boxes
from app.inference.model_card import model_facts
from app.inference.prediction import Picture
from app.kit.text.json_values import JsonObject

GREY_SIDE = 320
"""The longer side of the gray picture, in pixels."""
LEAST_SIDE = 16
CERTAIN = 0.08
"""Height of the correlation's peak below which a box is not moved."""
Grey = npt.NDArray[np.float32]


def grey_of(picture: Picture) -> Grey:
    """Returns a small gray picture; its longer side is at most GREY_SIDE."""
    size = size_of(picture)
    ratio = min(1.0, GREY_SIDE / max(size))
    small = max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio))
    image = Image.fromarray(picture).resize(small, Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(image.convert("L"), dtype=np.float32)


class Tracker:
    """Moves boxes from frame to frame by phase correlation. Only one thread may use it."""

    def __init__(self) -> None:
        self._picture: Picture | None = None
        self._grey: Grey | None = None
        self._boxes: list[list[float]] = []
        self._size: Size = (1, 1)

    @property
    def boxes(self) -> list[list[float]]:
        """Returns the boxes in the last picture, in pixels of the size given to `begin`."""
        return self._boxes

    def begin(self, picture: Picture, boxes: Sequence[Sequence[float]], size: Size) -> None:
        """Starts with the boxes of a picture, in pixels of `size`."""
        self._picture, self._grey = picture, None
        self._boxes, self._size = [list(box) for box in boxes], size

    def follow(self, picture: Picture) -> list[list[float]]:
        """Returns the boxes in the next picture."""
        if self._picture is None or not self._boxes:
            return self._boxes
        before = grey_of(self._picture) if self._grey is None else self._grey
        now = grey_of(picture)
        if before.shape == now.shape:
            ratio = ratio_of(self._size, (now.shape[1], now.shape[0]))
            small = [_follow(before, now, box) for box in scale_boxes(self._boxes, ratio)]
            self._boxes = scale_boxes(small, (1 / ratio[0], 1 / ratio[1]))
        self._picture, self._grey = picture, now
        return self._boxes


def _follow(before: Grey, now: Grey, box: Sequence[float]) -> list[float]:
    x1, y1, x2, y2 = box
    left, right = _find_range(x1, x2, now.shape[1])
    top, bottom = _find_range(y1, y2, now.shape[0])
    if right - left < LEAST_SIDE // 2 or bottom - top < LEAST_SIDE // 2:
        return list(box)
    dx, dy = _find_shift(before[top:bottom, left:right], now[top:bottom, left:right])
    return [x1 + dx, y1 + dy, x2 + dx, y2 + dy]


def _find_range(low: float, high: float, end: int) -> tuple[int, int]:
    """Returns the range to search: half as large again as the box, within the picture."""
    middle, half = (low + high) / 2, max(LEAST_SIDE, (high - low) * 1.5) / 2
    return max(0, int(middle - half)), max(0, min(end, int(np.ceil(middle + half))))


def _find_shift(before: Grey, now: Grey) -> tuple[float, float]:
    """Returns the x and y by which the patch has moved, by phase correlation; 0, 0 if it is unclear."""
    window = np.outer(np.hanning(before.shape[0]), np.hanning(before.shape[1])).astype(np.float32)
    spectra = [np.fft.rfft2((patch - patch.mean()) * window) for patch in (before, now)]
    cross = spectra[1] * np.conj(spectra[0])
    surface = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-6), s=before.shape)
    y, x = np.unravel_index(int(np.argmax(surface)), surface.shape)
    if surface[y, x] < CERTAIN:
        return 0.0, 0.0
    return _place(surface[y, :], int(x)), _place(surface[:, x], int(y))


def _place(values: Any, at: int) -> float:
    """Returns the position of the peak between its neighbors; the values are periodic."""
    length = len(values)
    left, middle, right = (float(values[(at + step) % length]) for step in (-1, 0, 1))
    bend = left - 2 * middle + right
    exact = at + (0.5 * (left - right) / bend if bend < 0 else 0.0)
    return exact - length if exact > length / 2 else exact


class FrameResults:
    """Turns the result of each frame into rows and figures. One thread at a time may use it.

    Args:
        checkpoint: keeps the ids of the objects over a restart.
        realtime: whether a frame's time starts when it is captured; otherwise when its processing starts.
        source_fps: frames per second of the source; 0 while unknown.

    Attributes:
        newest: {seq, bytes, objects} of the last frame, with width and height of its processed part.
    """

    def __init__(
        self,
        needs: DagRequirements,
        metrics: PlanMetrics,
        reporter: Reporter,
        renderer: PreviewRenderer,
        sampler: ReferenceSampler,
        checkpoint: CheckpointFile,
        *,
        realtime: bool,
        source_fps: Callable[[], float],
    ) -> None:
        self._needs, self._metrics, self._reporter = needs, metrics, reporter
        self._renderer, self._sampler, self._realtime, self._source_fps = renderer, sampler, realtime, source_fps
        self._checkpoint = checkpoint
        self.newest: JsonObject = {}
        self._last: FrameOutcome | None = None
        self._tracker = Tracker()

    def take(self, result: FrameResult, hi_s: float) -> None:
        """Takes results in the order of the frames.

        Args:
            result: the next one.
            hi_s: the seconds above which a frame violates the constraint.
        """
        if result.outcome is not None:
            self._handle_processed(result, result.outcome, hi_s)
        else:
            self._handle_tracked(result)

    def _handle_processed(self, result: FrameResult, outcome: FrameOutcome, hi_s: float) -> None:
        frame = result.frame
        boxes = self._boxes_of(outcome)
        e2e_s = self._measure_since(result)
        self._metrics.processed(outcome, e2e_s, hi_s)
        self._last = outcome
        if boxes is not None:
            self._tracker.begin(frame.picture, boxes, outcome.size)
        self._publish(result, outcome, boxes, e2e_s)
        self._sampler.offer(frame, outcome)

    def _handle_tracked(self, result: FrameResult) -> None:
        """Handles a tracked frame; one before the first processed frame has no boxes to track."""
        if self._last is None:
            return
        outcome = self._last
        boxes = self._boxes_of(outcome)
        if result.frame.still:
            boxes = self._tracker.boxes if boxes is not None else None
        elif boxes is not None:
            boxes = self._tracker.follow(result.frame.picture)
        if boxes is not None:
            outcome = carry_details(self._needs, outcome, boxes)
        if not result.frame.still:
            self._metrics.tracked()
        self._publish(result, outcome, boxes, self._measure_since(result))

    def _measure_since(self, result: FrameResult) -> float:
        return time.monotonic() - (result.frame.captured if self._realtime else result.began)

    def _publish(
        self, result: FrameResult, outcome: FrameOutcome, boxes: list[list[float]] | None, e2e_s: float
    ) -> None:
        frame = result.frame
        row: JsonObject = {
            **counts_of(self._needs, outcome.values),
            "n_loop": frame.n_loop,
            "at": round(time.time(), 3),
            "e2e": round(e2e_s, 6),
            "tracked": frame.tracked,
            "plan": outcome.plan.seq,
        }
        timing = outcome.timings.get(self._needs.answers)
        if timing is not None:
            row |= model_facts(timing.model)
        width, height = size_of(frame.picture)
        if boxes is not None:
            row["size"] = list(frame.source_size)
            x, y = (frame.crop.x, frame.crop.y) if frame.crop is not None else (0, 0)
            ratio = ratio_of(outcome.size, (width, height))
            row["bbox"] = [
                [round(side + offset, 1) for side, offset in zip(box, (x, y, x, y), strict=True)]
                for box in scale_boxes(boxes, ratio)
            ]
            row |= details_of(self._needs, outcome, ratio, (x, y))
        if frame.at is not None:
            row["pts"] = round(frame.at, 3)
        if boxes is not None:
            row = self._add_ids(row, frame)
        json.dumps(row)  # raises for a result that could not be reported
        self._reporter.result(row)
        sent = sum(timing.sent for timing in outcome.timings.values())
        self.newest = {
            "seq": frame.n_loop,
            "bytes": sent,
            "objects": len(boxes) if boxes is not None else 0,
            "width": width,
            "height": height,
        }
        values = {**outcome.values, self._needs.track_ids: row["ids"]} if "ids" in row else outcome.values
        self._renderer.show(PreviewScene(frame, values, outcome.size))

    def _add_ids(self, row: JsonObject, frame: CapturedFrame) -> JsonObject:
        """Returns the row with the ids of its objects; an object that is followed from the row before keeps its id."""
        at_s = row["at"] if self._realtime or frame.at is None else frame.at
        return self._checkpoint.objects.add_ids(row, frame.source_size, at_s)

    def source_facts(self) -> JsonObject:
        """Returns `newest` with the fps of the source, which is known before its first frame is processed: the
        generator_output for policies."""
        fps = self._source_fps()
        return {**self.newest, "fps": round(fps, 3)} if fps else self.newest

    def _boxes_of(self, outcome: FrameOutcome) -> list[list[float]] | None:
        reference = self._needs.tracked_boxes
        return None if reference is None else outcome.values.get(reference)
