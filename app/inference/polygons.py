"""Polygons, as which masks leave a decoder: their area, and their JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Polygon: TypeAlias = tuple[tuple[float, float], ...]
"""x and y of its corners, in pixels of the source picture."""


def flat(polygons: Sequence[Polygon]) -> list[list[float]]:
    """Returns [[x, y, x, y, …], …], the polygons as JSON, in hundredths of a pixel."""
    return [[round(value, 2) for point in polygon for value in point] for polygon in polygons]


def polygons_of(rows: Sequence[Sequence[float]]) -> tuple[Polygon, ...]:
    """Reads the result of flat; what has fewer than three corners is left out.

    Raises:
        TypeError, ValueError: It is something else.
    """
    polygons = (tuple((float(x), float(y)) for x, y in zip(row[::2], row[1::2], strict=True)) for row in rows)
    return tuple(polygon for polygon in polygons if len(polygon) > 2)


def area_of(polygon: Sequence[Sequence[float]]) -> float:
    """Returns the area in square pixels."""
    pairs = zip(polygon, (*polygon[1:], polygon[0]), strict=True)
    return abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairs)) / 2
