"""The results of processed and tracked frames: rows, scenes to draw, figures.

Between processed frames boxes are tracked: each is searched near its last place, on a small gray picture.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from app.edge.video.runner.frame_context import DagRequirements, Outcome, counts_of
from app.edge.video.runner.frame_workers import FrameResult
from app.edge.video.runner.plan_metrics import PlanMetrics
from app.edge.video.runner.preview import PreviewRenderer, PreviewScene
from app.edge.video.runner.quality import ReferenceSampler
from app.edge.video.runner.reporter import Reporter
from app.edge.video.runner.resize import Size, moved_boxes, ratio_of, size_of
from app.inference.prediction import Picture
from app.video.model.dag import Reference
from app.video.model.kinds import Type

GREY_SIDE = 320
"""Of the longer side of the gray picture, pixels."""
LEAST_SIDE = 16
CERTAIN = 0.08
"""Height of the correlation's peak below which a box stays where it was."""
Grey = npt.NDArray[np.float32]


def grey_of(picture: Picture) -> Grey:
    """Small; its longer side at most GREY_SIDE."""
    size = size_of(picture)
    ratio = min(1.0, GREY_SIDE / max(size))
    small = max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio))
    image = Image.fromarray(picture).resize(small, Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(image.convert("L"), dtype=np.float32)


class Tracker:
    """Moves boxes from frame to frame, by phase correlation. For one thread."""

    def __init__(self) -> None:
        self._picture: Picture | None = None
        self._grey: Grey | None = None
        self._boxes: list[list[float]] = []
        self._size: Size = (1, 1)

    @property
    def boxes(self) -> list[list[float]]:
        """Where they are in the last picture, in pixels of the size that they began with."""
        return self._boxes

    def begin(self, picture: Picture, boxes: Sequence[Sequence[float]], size: Size) -> None:
        """boxes: of the picture, in pixels of `size`."""
        self._picture, self._grey = picture, None
        self._boxes, self._size = [list(box) for box in boxes], size

    def follow(self, picture: Picture) -> list[list[float]]:
        """Where the boxes are in this picture, the next one."""
        if self._picture is None or not self._boxes:
            return self._boxes
        before = grey_of(self._picture) if self._grey is None else self._grey
        now = grey_of(picture)
        if before.shape == now.shape:
            ratio = ratio_of(self._size, (now.shape[1], now.shape[0]))
            small = [_followed(before, now, box) for box in moved_boxes(self._boxes, ratio)]
            self._boxes = moved_boxes(small, (1 / ratio[0], 1 / ratio[1]))
        self._picture, self._grey = picture, now
        return self._boxes


def _followed(before: Grey, now: Grey, box: Sequence[float]) -> list[float]:
    x1, y1, x2, y2 = box
    left, right = _span(x1, x2, now.shape[1])
    top, bottom = _span(y1, y2, now.shape[0])
    if right - left < LEAST_SIDE // 2 or bottom - top < LEAST_SIDE // 2:
        return list(box)
    dx, dy = _shift(before[top:bottom, left:right], now[top:bottom, left:right])
    return [x1 + dx, y1 + dy, x2 + dx, y2 + dy]


def _span(low: float, high: float, end: int) -> tuple[int, int]:
    """Half as large again as the box, within the picture."""
    middle, half = (low + high) / 2, max(LEAST_SIDE, (high - low) * 1.5) / 2
    return max(0, int(middle - half)), max(0, min(end, int(np.ceil(middle + half))))


def _shift(before: Grey, now: Grey) -> tuple[float, float]:
    """The x and y by which the patch has moved, by phase correlation; 0, 0 if that cannot be told."""
    window = np.outer(np.hanning(before.shape[0]), np.hanning(before.shape[1])).astype(np.float32)
    spectra = [np.fft.rfft2((patch - patch.mean()) * window) for patch in (before, now)]
    cross = spectra[1] * np.conj(spectra[0])
    surface = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-6), s=before.shape)
    y, x = np.unravel_index(int(np.argmax(surface)), surface.shape)
    if surface[y, x] < CERTAIN:
        return 0.0, 0.0
    return _place(surface[y, :], int(x)), _place(surface[:, x], int(y))


def _place(values: Any, at: int) -> float:
    """Of the peak, between its neighbors; the values are periodic."""
    length = len(values)
    left, middle, right = (float(values[(at + step) % length]) for step in (-1, 0, 1))
    bend = left - 2 * middle + right
    exact = at + (0.5 * (left - right) / bend if bend < 0 else 0.0)
    return exact - length if exact > length / 2 else exact


class FrameResults:
    """What becomes of each frame. For one thread at a time.

    Args:
        realtime: A frame's time starts when it is taken; else when work on it starts.
        source_fps: Frames a second of the source; 0 while it does not say.

    Attributes:
        newest: Of the last frame {seq, bytes, objects}, with width and height of what is processed of it, and the fps
            of the source: what the policies are told as generator_output.
    """

    def __init__(
        self,
        needs: DagRequirements,
        metrics: PlanMetrics,
        reporter: Reporter,
        renderer: PreviewRenderer,
        sampler: ReferenceSampler,
        *,
        realtime: bool,
        source_fps: Callable[[], float],
    ) -> None:
        self._needs, self._metrics, self._reporter = needs, metrics, reporter
        self._renderer, self._sampler, self._realtime, self._source_fps = renderer, sampler, realtime, source_fps
        self.newest: dict[str, Any] = {}
        self._last: Outcome | None = None
        self._tracker = Tracker()

    def take(self, result: FrameResult, hi_s: float) -> None:
        """In the order of the frames.

        Args:
            hi_s: above it a frame violates the constraint.
        """
        if result.outcome is not None:
            self._processed(result, result.outcome, hi_s)
        else:
            self._tracked(result)

    def _processed(self, result: FrameResult, outcome: Outcome, hi_s: float) -> None:
        frame = result.frame
        boxes = self._boxes_of(outcome)
        e2e_s = self._since(result)
        self._metrics.processed(outcome, e2e_s, hi_s)
        self._last = outcome
        if boxes is not None:
            self._tracker.begin(frame.picture, boxes, outcome.size)
        self._publish(result, outcome, boxes, e2e_s)
        self._sampler.offer(frame, outcome)

    def _tracked(self, result: FrameResult) -> None:
        """A tracked frame before the first that was processed has nothing to carry on."""
        if self._last is None:
            return
        outcome = self._last
        boxes = self._boxes_of(outcome)
        if result.frame.still:
            boxes = self._tracker.boxes if boxes is not None else None
        elif boxes is not None:
            boxes = self._tracker.follow(result.frame.picture)
        if boxes is not None:
            outcome = replace(outcome, values={**outcome.values, self._tracks: boxes})
        if not result.frame.still:
            self._metrics.tracked()
        self._publish(result, outcome, boxes, self._since(result))

    def _since(self, result: FrameResult) -> float:
        return time.monotonic() - (result.frame.captured if self._realtime else result.began)

    def _publish(self, result: FrameResult, outcome: Outcome, boxes: list[list[float]] | None, e2e_s: float) -> None:
        frame = result.frame
        row: dict[str, Any] = {
            **counts_of(self._needs, outcome.values),
            "n_loop": frame.n_loop,
            "at": round(time.time(), 3),
            "e2e": round(e2e_s, 6),
            "tracked": frame.tracked,
        }
        width, height = size_of(frame.picture)
        if boxes is not None:
            row["size"] = list(frame.source_size)
            x, y = (frame.crop.x, frame.crop.y) if frame.crop is not None else (0, 0)
            row["bbox"] = [
                [round(side + offset, 1) for side, offset in zip(box, (x, y, x, y), strict=True)]
                for box in moved_boxes(boxes, ratio_of(outcome.size, (width, height)))
            ]
            row |= self._classes_of(outcome, len(boxes))
        if frame.at is not None:
            row["pts"] = round(frame.at, 3)
        json.dumps(row)  # raises for a result that could not be reported
        self._reporter.result(row)
        sent = sum(timing.sent for timing in outcome.timings.values())
        self.newest = {
            "seq": frame.n_loop,
            "bytes": sent,
            "objects": len(boxes) if boxes is not None else 0,
            "width": width,
            "height": height,
            **self._rate(),
        }
        self._renderer.show(PreviewScene(frame, outcome.values, outcome.size))

    def _classes_of(self, outcome: Outcome, count: int) -> dict[str, Any]:
        """What the stage of the boxes says of each."""
        stated: dict[str, Any] = {}
        for field, type_ in self._needs.kinds[self._needs.tracked].outputs.items():
            values = outcome.values.get(Reference(self._needs.tracked, field))
            if not isinstance(values, list) or len(values) != count:
                continue
            if type_ is Type.LABELS:
                stated["labels"] = values
            elif type_ is Type.SCORES:
                stated["scores"] = [round(float(score), 4) for score in values]
        return stated

    def _rate(self) -> dict[str, float]:
        fps = self._source_fps()
        return {"fps": round(fps, 3)} if fps else {}

    @property
    def _tracks(self) -> Reference:
        return Reference(self._needs.tracked, self._needs.kinds[self._needs.tracked].tracks)

    def _boxes_of(self, outcome: Outcome) -> list[list[float]] | None:
        return outcome.values.get(self._tracks) if self._needs.tracked else None
