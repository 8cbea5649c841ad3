"""Key points of an object: which are drawn, and how alike those of two objects are. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

Keypoint: TypeAlias = tuple[float, float, float]
"""x and y in pixels of the source picture, and a score in 0..1."""
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


def visible_points(keypoints: Sequence[Keypoint]) -> tuple[tuple[float, float], ...]:
    """Returns x and y of the visible key points."""
    return tuple((x, y) for x, y, score in keypoints if score >= VISIBLE)


def visible_lines(keypoints: Sequence[Keypoint]) -> tuple[tuple[float, float, float, float], ...]:
    """Returns x1, y1, x2, y2 of the lines between visible key points; none if the key points are not those of COCO."""
    if len(keypoints) != len(COCO_DEVIATIONS):
        return ()
    pairs = [(keypoints[one], keypoints[other]) for one, other in COCO_SKELETON]
    return tuple((x1, y1, x2, y2) for (x1, y1, one), (x2, y2, other) in pairs if min(one, other) >= VISIBLE)


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
