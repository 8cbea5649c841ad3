"""Key points and outlines of an object: what is drawn of them, and how alike key points are. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Keypoint: TypeAlias = tuple[float, float, float]
"""x and y in pixels of the source picture, and a score in 0..1."""
Polygon: TypeAlias = tuple[tuple[float, float], ...]
"""x and y of its corners, in pixels of the source picture."""
VISIBLE = 0.5
"""Key points with a lower score are neither drawn nor compared."""
COCO_SKELETON = (
    *((0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6)),
    *((5, 6), (5, 7), (7, 9), (6, 8), (8, 10), (5, 11), (6, 12)),
    *((11, 12), (11, 13), (13, 15), (12, 14), (14, 16)),
)
"""Pairs of COCO's 17 key points of a person: head, arms and trunk, legs."""
COCO_DEVIATIONS = (
    *(0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072),
    *(0.062, 0.062, 0.107, 0.107, 0.087, 0.087, 0.089, 0.089),
)
"""How far annotators of COCO differ, in parts of the square root of the object's area."""
AREA_SHARE = 0.53
"""Area of an object relative to that of its box, as Ultralytics assumes."""


@dataclass(frozen=True)
class Figure:
    """What is drawn of an object beside its box."""

    points: tuple[tuple[float, float], ...] = ()
    lines: tuple[tuple[float, float, float, float], ...] = ()
    """x1, y1, x2, y2; empty if the key points are not those of COCO."""
    polygons: tuple[Polygon, ...] = ()


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


def area_of(polygon: Polygon) -> float:
    """Returns the area in square pixels."""
    pairs = zip(polygon, (*polygon[1:], polygon[0]), strict=True)
    return abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in pairs)) / 2


def figure_of(keypoints: Sequence[Sequence[float]], polygons: Sequence[Polygon] = ()) -> Figure:
    """Returns what is drawn of key points x, y, score, and of a mask."""
    points = tuple((x, y) for x, y, score in keypoints if score >= VISIBLE)
    if len(keypoints) != len(COCO_DEVIATIONS):
        return Figure(points, (), tuple(polygons))
    pairs = [(keypoints[one], keypoints[other]) for one, other in COCO_SKELETON]
    lines = tuple((*one[:2], *other[:2]) for one, other in pairs if min(one[2], other[2]) >= VISIBLE)
    return Figure(points, lines, tuple(polygons))  # type: ignore[arg-type]


def keypoint_similarity(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]], area: float) -> float:
    """Returns the object keypoint similarity (OKS) of two objects, 0..1, over the key points that are visible in
    either; 1 if there are none, 0 if the numbers of key points differ.

    Args:
        area: of the box, in pixels.
    """
    if len(one) != len(other):
        return 0.0
    count = len(one)
    deviations = COCO_DEVIATIONS if count == len(COCO_DEVIATIONS) else (1 / count,) * count
    shares = [
        math.exp(-((x - u) ** 2 + (y - v) ** 2) / max(8 * deviation**2 * AREA_SHARE * area, 1e-9))
        for (x, y, first), (u, v, second), deviation in zip(one, other, deviations, strict=True)
        if max(first, second) >= VISIBLE
    ]
    return sum(shares) / len(shares) if shares else 1.0
