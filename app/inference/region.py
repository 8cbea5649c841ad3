"""The part of a picture that is processed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.inference.prediction import Box, Picture


@dataclass(frozen=True)
class Crop:
    """The position of a part in its source picture, in pixels."""

    x: int
    y: int
    width: int
    """Width of the source picture."""
    height: int

    def in_whole(self, whole: Picture, part: Picture) -> Picture:
        """A copy of the source picture with this part in its place."""
        copy = whole.copy()
        copy[self.y : self.y + part.shape[0], self.x : self.x + part.shape[1]] = part
        return copy

    def in_source(self, boxes: Sequence[Box]) -> tuple[Box, ...]:
        """Converts boxes of the part to pixels of the source picture."""
        return tuple(box.moved(self.x, self.y) for box in boxes)


WANTED = "x1,y1,x2,y2: two corners as shares of the picture, as 0.1,0.5,0.9,1"


@dataclass(frozen=True)
class Region:
    """A rectangle by its corners, as shares of a picture's width and height."""

    x1: float
    y1: float
    x2: float
    y2: float

    def __str__(self) -> str:
        return f"{self.x1:g},{self.y1:g},{self.x2:g},{self.y2:g}"

    def of(self, picture: Picture) -> tuple[Picture, Crop]:
        """Returns the part, which shares the picture's memory and has at least one pixel, and its position."""
        height, width = picture.shape[:2]
        left, top = min(int(self.x1 * width), width - 1), min(int(self.y1 * height), height - 1)
        right, bottom = max(round(self.x2 * width), left + 1), max(round(self.y2 * height), top + 1)
        return picture[top:bottom, left:right], Crop(left, top, int(width), int(height))


def read_region(text: str) -> Region:
    """Reads a region.

    Raises:
        ValueError: With a description of the valid form.
    """
    try:
        x1, y1, x2, y2 = (float(word) for word in text.split(","))
    except ValueError:
        raise ValueError(WANTED) from None
    if not (0 <= x1 < x2 <= 1 and 0 <= y1 < y2 <= 1):
        raise ValueError(WANTED)
    return Region(x1, y1, x2, y2)
