"""Which frames of a stream are processed, and which part of each: a region of interest, and a motion gate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.inference.prediction import Picture
from app.inference.region import Crop, Region

if TYPE_CHECKING:
    from app.inference.motion import MotionGate

STILL_S = 10.0


@dataclass(frozen=True)
class FrameGate:
    """What a user demands of the frames that are processed."""

    region: Region | None = None
    """The part of each frame that is processed; None: all."""
    motion: float = 0.0
    """The share of pixels that must have changed since the last processed frame; 0: each frame is processed."""
    still_s: float = STILL_S
    """A frame is processed after this many seconds even if nothing moves."""

    def part_of(self, picture: Picture) -> tuple[Picture, Crop | None]:
        """The part, which shares the picture's memory, and where it lies; None: it is the whole picture."""
        return self.region.of(picture) if self.region is not None else (picture, None)

    def motion_gate(self, clock: Callable[[], float] = time.monotonic) -> MotionGate:
        """clock: seconds that never go back."""
        from app.inference.motion import MotionGate  # NumPy, which the web does without

        return MotionGate(self.motion, self.still_s, clock=clock)


EVERY_FRAME = FrameGate()
"""Lets every frame pass, as a whole."""
