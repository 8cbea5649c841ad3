"""Non-maximum suppression: of boxes of one class that overlap too much, the one of the highest score stays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from app.inference.preprocessing import Floats

MOST = 1000
"""Boxes that are compared, the best ones; a detector that finds more of them finds noise."""


def suppressed(corners: Floats, scores: Floats, labels: npt.NDArray[np.intp], threshold: float) -> npt.NDArray[np.intp]:
    """Boxes with a corner or score that is no finite number are dropped, too.

    Args:
        corners: x1, y1, x2, y2: N×4.
        scores: N.
        labels: Indexes of their classes: N.
        threshold: Overlap (IoU) above which the weaker of two boxes of a class is dropped.

    Returns:
        Indexes of the boxes that stay, best first.
    """
    sound = np.flatnonzero(np.isfinite(corners).all(axis=1) & np.isfinite(scores))
    order = sound[np.argsort(-scores[sound], kind="stable")][:MOST]
    kept: list[int] = []
    while order.size:
        best, rest = order[0], order[1:]
        kept.append(int(best))
        order = rest[(overlap(corners[best], corners[rest]) <= threshold) | (labels[rest] != labels[best])]
    return np.array(kept, dtype=np.intp)


def overlap(box: Floats, others: Floats) -> Floats:
    """Intersection over union of a box with N others; 0 where both are empty."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, 0), axis=1)
    union = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=1) - shared
    share: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return share
