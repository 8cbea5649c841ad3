"""What the big model has answered: a prediction, or why it is none. What comes over the network is never trusted."""

from __future__ import annotations

import math

from app.inference.prediction import Prediction
from app.kit.text.plain_text import printable
from app.kit.text.untrusted_json import read_json

SHOWN = 160
"""Characters of an answer that an error quotes."""


class InvalidAnswer(Exception):
    """The cloud answered, but not with a prediction. Its text says what the answer was."""


def prediction_of(status: int, body: bytes, edge: Prediction | None) -> tuple[Prediction, object]:
    """The big model's prediction, and what it tells as its name.

    Args:
        status: of the answer.
        body: of the answer.
        edge: the small model's prediction of the same picture: both are classifiers, or both are detectors.

    Raises:
        InvalidAnswer: the answer is not a prediction.
    """
    if status != 200:
        raise InvalidAnswer(f"the cloud answered {status}: {_excerpt(body)}")
    try:
        answer = read_json(body, is_strict=True)
        prediction = Prediction.from_json(answer)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidAnswer(f"the cloud's answer is no prediction ({type(error).__name__}): {_excerpt(body)}") from None
    problem = _find_problem(prediction, edge)
    if problem:
        raise InvalidAnswer(f"the cloud's answer is no prediction: {problem}")
    return prediction, answer.get("model")


def _find_problem(prediction: Prediction, edge: Prediction | None) -> str:
    shares = (*prediction.probabilities, *(box.score for box in prediction.boxes))
    if not all(0 <= share <= 1 + 1e-6 for share in shares):
        return "a score lies outside 0..1"
    if not all(math.isfinite(v) for box in prediction.boxes for v in (box.x1, box.y1, box.x2, box.y2)):
        return "a box has no finite corners"
    if not all(math.isfinite(value) for box in prediction.boxes for point in box.keypoints for value in point):
        return "a key point has no finite place"
    if not all(math.isfinite(v) for box in prediction.boxes for part in box.mask for point in part for v in point):
        return "a mask has no finite corners"
    if edge is not None and bool(edge.probabilities) != bool(prediction.probabilities):
        return "one model is a classifier and the other is none"
    return ""


def _excerpt(body: bytes) -> str:
    """The beginning of an answer, or the message of an error of this product."""
    try:
        message = read_json(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = body[:SHOWN].decode("utf-8", "replace")
    return printable(str(message)[:SHOWN]).strip() or "nothing"
