"""Scores of N things in C classes: from logits to shares, and which are high enough. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.errors import InferenceFailed
from app.inference.preprocessing import Floats

TOLERANCE = 0.05
"""Probabilities of an int8 model may lie so far outside of 0..1."""


def find_scored_pairs(scores: Floats, floor: float) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Returns the row and the class of every score of at least `floor`, as authors do that suppress each class alone: a
    box may be several things.

    Args:
        scores: N×C.
        floor: lowest score.
    """
    rows, labels = np.nonzero(scores >= floor)
    return rows, labels


def shares_of(values: Floats, *, is_exclusive: bool) -> Floats:
    """Returns scores in 0..1, N×C. What lies in 0..1, about so for an int8 model, stays; anything else are logits.

    Args:
        values: N×C.
        is_exclusive: whether the classes of a row exclude each other (softmax), or not (sigmoid).
    """
    if values.min(initial=0) >= -TOLERANCE and values.max(initial=0) <= 1 + TOLERANCE:
        return np.clip(values, 0, 1)
    return softmax(values) if is_exclusive else sigmoid(values)


def sigmoid(logits: Floats) -> Floats:
    """Returns values in 0..1."""
    with np.errstate(over="ignore"):
        shares: Floats = 1 / (1 + np.exp(-logits))
    return shares


def softmax(logits: Floats) -> Floats:
    """Returns values in 0..1 whose sum along the last axis is 1."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True, initial=-np.inf))
    shares: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def require_numbers(values: npt.NDArray[Any]) -> None:
    """Refuses an output that cannot be decoded.

    Raises:
        InferenceFailed: One of its values is infinite or not a number.
    """
    if not np.isfinite(values).all():
        raise InferenceFailed("the model answered with values that are no numbers", hint="Check its preprocessing.")
