"""How far two answers to the same picture agree. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.inference.keypoints import keypoint_similarity
from app.inference.prediction import Box, Prediction

MIN_IOU = 0.5


def agreement(one: Prediction, other: Prediction) -> float:
    """Returns how far two answers agree: for classifiers 1 if both name the same class, otherwise 0; for detectors the
    F1 of their boxes, 1 if neither has any. With masks or key points, each matched box counts as much
    as they are alike."""
    if one.probabilities or other.probabilities:
        return float(bool(one.probabilities and other.probabilities) and one.label == other.label)
    count = len(one.boxes) + len(other.boxes)
    return 2.0 * matches(one.boxes, other.boxes) / count if count else 1.0


def iou(box: Box, other: Box) -> float:
    """Returns the intersection of two boxes over their union, 0..1."""
    width = min(box.x2, other.x2) - max(box.x1, other.x1)
    height = min(box.y2, other.y2) - max(box.y1, other.y1)
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / (_compute_area(box) + _compute_area(other) - both)


def matches(boxes: Sequence[Box], truth: Sequence[Box]) -> float:
    """Counts the correct boxes: those with the highest score first, each with the best remaining true box. One counts
    1, or as much as its mask or key points are alike."""
    unmatched = list(truth)
    right = 0.0
    for box in sorted(boxes, key=lambda box: -box.score):
        fits = [(iou(box, other), index) for index, other in enumerate(unmatched) if other.label == box.label]
        best, index = max(fits, default=(0.0, -1))
        if best >= MIN_IOU:
            right += likeness(box, unmatched.pop(index))
    return right


def likeness(box: Box, other: Box) -> float:
    """Returns how alike two matched objects are, 0..1: by their texts if one has any, by their masks or key points if
    both have them, otherwise 1."""
    if box.text or other.text:
        return float(box.text == other.text)
    if box.mask and other.mask:
        from app.inference.masks import mask_overlap

        return mask_overlap(box.mask, other.mask)
    if not box.keypoints or not other.keypoints:
        return 1.0
    return keypoint_similarity(box.keypoints, other.keypoints, (_compute_area(box) + _compute_area(other)) / 2)


def _compute_area(box: Box) -> float:
    return (box.x2 - box.x1) * (box.y2 - box.y1)
