"""Carries boxes from frame to frame: what lies in each is looked for a little beside, on a small grey picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from app.edge.video.runner.resize import Size, moved_boxes, ratio_of, size_of
from app.inference.prediction import Picture

LOOKED_AT = 320
"""Of the longer side of the grey picture."""
LEAST_SIDE = 16
CERTAIN = 0.08
"""Height of the correlation's peak below which a box stays where it was."""
Grey = npt.NDArray[np.float32]


def grey_of(picture: Picture) -> Grey:
    """Small; its longer side at most LOOKED_AT."""
    size = size_of(picture)
    ratio = min(1.0, LOOKED_AT / max(size))
    small = max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio))
    image = Image.fromarray(picture).resize(small, Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(image.convert("L"), dtype=np.float32)


class Tracker:
    """Boxes are those of pictures of `size`. For one thread."""

    def __init__(self) -> None:
        self._picture: Picture | None = None
        self._grey: Grey | None = None
        self._boxes: list[list[float]] = []
        self._size: Size = (1, 1)

    def begin(self, picture: Picture, boxes: Sequence[Sequence[float]], size: Size) -> None:
        self._picture, self._grey = picture, None
        self._boxes, self._size = [list(box) for box in boxes], size

    def follow(self, picture: Picture) -> list[list[float]]:
        """Where the boxes are in this one, which comes after the last that was seen."""
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
    """By phase correlation: x and y by which what was before lies elsewhere now; 0, 0 where that cannot be told."""
    window = np.outer(np.hanning(before.shape[0]), np.hanning(before.shape[1])).astype(np.float32)
    spectra = [np.fft.rfft2((patch - patch.mean()) * window) for patch in (before, now)]
    cross = spectra[1] * np.conj(spectra[0])
    surface = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-6), s=before.shape)
    y, x = np.unravel_index(int(np.argmax(surface)), surface.shape)
    if surface[y, x] < CERTAIN:
        return 0.0, 0.0
    return _place(surface[y, :], int(x)), _place(surface[:, x], int(y))


def _place(line: Any, at: int) -> float:
    """Of the peak, between its neighbours; of a line that goes round."""
    length = len(line)
    left, middle, right = (float(line[(at + step) % length]) for step in (-1, 0, 1))
    bend = left - 2 * middle + right
    exact = at + (0.5 * (left - right) / bend if bend < 0 else 0.0)
    return exact - length if exact > length / 2 else exact
