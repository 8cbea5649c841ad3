"""Places in a job's picture: areas and lines, in relative coordinates. Pure.

0, 0 is the upper left corner, 1, 1 the lower right one: a zone stays where it is when the size of the picture changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Point = tuple[float, float]
LINE = 2
"""Points of a line; an area has more."""


class Direction(StrEnum):
    """In which a line is crossed, as seen by who looks from its first point to its second."""

    ANY = "any"
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Zone:
    """A place in the picture, under a name."""

    name: str
    points: tuple[Point, ...]
    """Of a line two, of an area its corners."""

    @property
    def is_line(self) -> bool:
        return len(self.points) == LINE

    def contains(self, point: Point) -> bool:
        """Is the point in this area? One on its edge may be either. By the even-odd rule."""
        x, y = point
        is_inside = False
        for (x1, y1), (x2, y2) in zip(self.points, self.points[1:] + self.points[:1], strict=True):
            if (y1 > y) != (y2 > y) and x < x1 + (y - y1) * (x2 - x1) / (y2 - y1):
                is_inside = not is_inside
        return is_inside

    def crossed(self, before: Point, after: Point) -> Direction | None:
        """In which direction the way from one point to the other crosses this line; None: it does not."""
        begin, end = self.points
        side_before, side_after = _side(begin, end, before), _side(begin, end, after)
        if (side_before < 0) == (side_after < 0) or _side(before, after, begin) * _side(before, after, end) > 0:
            return None
        return Direction.RIGHT if side_before < 0 else Direction.LEFT


def _side(begin: Point, end: Point, point: Point) -> float:
    """Above 0: right of who looks from begin to end (y grows downwards); below: left."""
    return (end[0] - begin[0]) * (point[1] - begin[1]) - (end[1] - begin[1]) * (point[0] - begin[0])
