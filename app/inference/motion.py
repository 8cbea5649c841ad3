"""Detects motion. Pictures are compared small and gray, so that noise does not count."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PIL import Image

from app.inference.prediction import Picture

LOOKED_AT = (160, 120)
"""Width and height of the gray pictures that are compared, in pixels."""
LEVEL = 20.0
"""A pixel that differs by more than this, of 255, has changed."""
Grey = npt.NDArray[np.int16]


def small_grey(picture: Picture) -> Grey:
    """Returns a picture H×W×3 as gray levels of 0..255 at the size LOOKED_AT, 120×160."""
    image = Image.fromarray(picture).convert("L").resize(LOOKED_AT, Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.int16)


def measure_changed_share(before: Grey, after: Grey, level: float = LEVEL) -> float:
    """Returns the share of pixels that differ by more than `level` of 255."""
    return float((np.abs(after - before) > level).mean())


class MotionGate:
    """Lets a picture pass that differs from the last one that passed, so that what moves slowly passes, too.

    Args:
        least: the share of pixels that must have changed; 0: each passes.
        every_s: the longest time without one that passes, in seconds.
        clock: in seconds, steady.

    Attributes:
        held: how many did not pass.
    """

    def __init__(self, least: float, every_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._least, self._every_s, self._clock = least, every_s, clock
        self._passed: Grey | None = None
        self._passed_at = 0.0
        self.held = 0

    def passes(self, picture: Picture) -> bool:
        if not self._least:
            return True
        grey, now = small_grey(picture), self._clock()
        is_still = (
            self._passed is not None
            and now - self._passed_at < self._every_s
            and measure_changed_share(self._passed, grey) < self._least
        )
        if is_still:
            self.held += 1
            return False
        self._passed, self._passed_at = grey, now
        return True
