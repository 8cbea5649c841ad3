"""What the big model may answer. Whatever else comes over the network is told in words, and never trusted. Pure."""

from __future__ import annotations

import json
import math
from typing import Any

from app.inference.prediction import Prediction

MAX_ANSWER_BYTES = 1 << 20
SHOWN = 160


class NoAnswer(Exception):
    """The cloud did answer, but not with a prediction. Its text says what it did."""


def prediction_of(status: int, body: bytes, edge: Prediction | None) -> Prediction:
    """edge: what the small model said of the same picture: both are classifiers, or both detectors. Raises NoAnswer."""
    if status != 200:
        raise NoAnswer(f"the cloud answered {status}: {_said(body)}")
    try:
        found = Prediction.from_json(json.loads(body, parse_constant=_no_number))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise NoAnswer(f"the cloud's answer is no prediction ({type(error).__name__}): {_said(body)}") from None
    problem = _problem(found, edge)
    if problem:
        raise NoAnswer(f"the cloud's answer is no prediction: {problem}")
    return found


def _problem(found: Prediction, edge: Prediction | None) -> str:
    shares = (*found.probabilities, *(box.score for box in found.boxes))
    if not all(0 <= share <= 1 + 1e-6 for share in shares):
        return "a score lies outside 0..1"
    if not all(math.isfinite(v) for box in found.boxes for v in (box.x1, box.y1, box.x2, box.y2)):
        return "a box has no finite corners"
    if edge is not None and bool(edge.probabilities) != bool(found.probabilities):
        return "one model is a classifier and the other is none"
    return ""


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _said(body: bytes) -> str:
    """The beginning of it, or the message of an error of this product."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        message = body[:SHOWN].decode("utf-8", "replace")
    plain = "".join(c if c.isprintable() else " " for c in str(message)[:SHOWN])
    return plain.strip() or "nothing"
