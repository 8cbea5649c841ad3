"""What was measured of a stage on a node."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from app.inference.prediction import ModelCard
from app.kit.text.json_form import JsonDocument


def model_of(cards: Sequence[ModelCard]) -> str:
    """Names a variant by its files: sha256 of the one, or of all their sums; empty for a stage without models."""
    if len(cards) <= 1:
        return cards[0].sha256 if cards else ""
    return hashlib.sha256(" ".join(card.sha256 for card in cards).encode()).hexdigest()


@dataclass(frozen=True)
class Measurement(JsonDocument):
    """One stage with one model at one size on one node."""

    node: str
    stage: str
    model_id: int
    model: str
    """See model_of."""
    resolution: str
    delay_s: float
    """Seconds of computing a frame, without transport."""
    bytes: float
    """Of the frame as JPEG."""
    quality: float
    """0..1 against the golden configuration: F1, or 1 - MAE / 30 degrees."""
    frames: int = 0
    """How many were measured."""
    at: str = ""
