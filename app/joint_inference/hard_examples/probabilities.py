"""CrossEntropy: how sure a classifier is, over all of its classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from app.inference.prediction import Prediction
from app.joint_inference.hard_examples.base import Parameter, Verdict
from app.joint_inference.hard_examples.boxes import OUTSIDE, ROUNDING, are_shares, empty
from app.joint_inference.hard_examples.parameters import ParameterReader

SMALLEST = 1e-12


class CrossEntropy:
    """Hard when 1 + Σ p·ln p / ln n < threshold_cross_entropy: 1 is sure, 0 knows nothing. n = 1 is sure.

    Of a detector each candidate counts as two classes (score, 1 - score), and the mean over the candidates decides.
    """

    name: ClassVar[str] = "CrossEntropy"
    description: ClassVar[str] = "Hard when the entropy of the classes says that the model is not sure"
    parameters: ClassVar = (
        Parameter("threshold_cross_entropy", "number", "0.5", "Certainty (1: sure, 0: none) below it is hard", 0, 1),
        Parameter("empty_is_hard", "flag", "false", "A picture in which a detector sees nothing is hard"),
    )

    def __init__(self, parameters: Mapping[str, str]) -> None:
        given = ParameterReader(parameters)
        self.threshold = given.share("threshold_cross_entropy", 0.5)
        self.empty_is_hard = given.flag("empty_is_hard", False)

    def __call__(self, prediction: Prediction) -> Verdict:
        scores = tuple(box.score for box in prediction.candidates)
        if not prediction.probabilities and not scores:
            return empty(self.empty_is_hard, least_hard=1 - self.threshold)
        if not are_shares(prediction.probabilities or scores):
            return OUTSIDE
        if prediction.probabilities:
            certain = certainty(prediction.probabilities)
        else:
            certain = sum(certainty((score, 1 - score)) for score in scores) / len(scores)
        return Verdict(certain < self.threshold - ROUNDING, 1 - certain, f"certainty {certain:.2f}")

    def never(self, *, candidate_threshold: float) -> str:
        del candidate_threshold
        return "threshold_cross_entropy is 0, and no certainty is below that" if self.threshold <= 0 else ""


def certainty(probabilities: Sequence[float]) -> float:
    """1 + Σ p·ln p / ln n, in 0..1."""
    if len(probabilities) < 2:
        return 1.0
    clipped = [min(1.0, max(SMALLEST, p)) for p in probabilities]
    return min(1.0, max(0.0, 1 + sum(p * math.log(p) for p in clipped) / math.log(len(clipped))))
