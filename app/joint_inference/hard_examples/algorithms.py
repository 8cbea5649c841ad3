"""The bundled algorithms. IBT and Threshold use the scores of boxes, CrossEntropy the confidence of a classifier over
all of its classes, and the others ignore the prediction and serve for comparison. Formulas as in Sedna
(lib/sedna/algorithms).

A detector's scores are those of its candidates, not of its results: a model that misses an object often has a weak box
there. A classifier counts as one box, with the probability of its best class.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import ClassVar

from app.inference.prediction import Prediction
from app.joint_inference.hard_examples.base import Parameter, Verdict
from app.joint_inference.hard_examples.parameters import ParameterReader

ROUNDING = 1e-9
"""1 - 0.7 is a little more than 3/10 in floating point, which must not decide."""
EMPTY_IS_HARD = Parameter("empty_is_hard", "flag", "true", "A picture in which nothing is seen is hard")


class Ibt:
    """Hard when enough of the boxes are weak: #(score ≤ threshold_box) / #boxes ≥ 1 - threshold_img."""

    name: ClassVar[str] = "IBT"
    description: ClassVar[str] = "Hard when at least 1 − threshold_img of the boxes score threshold_box or less"
    parameters: ClassVar = (
        Parameter("threshold_img", "number", "0.5", "Share of strong boxes that makes a picture easy", 0, 1),
        Parameter("threshold_box", "number", "0.5", "A box of this score or less is weak", 0, 1),
        EMPTY_IS_HARD,
    )

    def __init__(self, parameters: Mapping[str, str]) -> None:
        given = ParameterReader(parameters)
        self.threshold_img = given.share("threshold_img", 0.5)
        self.threshold_box = given.share("threshold_box", 0.5)
        self.empty_is_hard = given.flag("empty_is_hard", True)

    def __call__(self, prediction: Prediction) -> Verdict:
        scores = scores_of(prediction)
        if not scores:
            return empty(self.empty_is_hard, least_hard=1 - self.threshold_img)
        if not are_shares(scores):
            return OUTSIDE
        weak = sum(score <= self.threshold_box for score in scores)
        share = weak / len(scores)
        why = f"{weak} of {len(scores)} candidates ≤ {self.threshold_box:.2f}"
        return Verdict(share >= 1 - self.threshold_img - ROUNDING, share, why)

    def never(self, *, candidate_threshold: float) -> str:
        if self.threshold_box > candidate_threshold or self.threshold_img >= 1 - ROUNDING:
            return ""
        return _check_threshold("threshold_box", self.threshold_box, candidate_threshold, self.empty_is_hard)


class Threshold:
    """Hard when the mean score of the boxes is below the threshold."""

    name: ClassVar[str] = "Threshold"
    description: ClassVar[str] = "Hard when the mean score of the boxes is below threshold"
    parameters: ClassVar = (
        Parameter("threshold", "number", "0.5", "A mean score below it is hard", 0, 1),
        EMPTY_IS_HARD,
    )

    def __init__(self, parameters: Mapping[str, str]) -> None:
        given = ParameterReader(parameters)
        self.threshold = given.share("threshold", 0.5)
        self.empty_is_hard = given.flag("empty_is_hard", True)

    def __call__(self, prediction: Prediction) -> Verdict:
        scores = scores_of(prediction)
        if not scores:
            return empty(self.empty_is_hard, least_hard=1 - self.threshold)
        if not are_shares(scores):
            return OUTSIDE
        mean = sum(scores) / len(scores)
        return Verdict(mean < self.threshold - ROUNDING, 1 - mean, f"mean score {mean:.2f}")

    def never(self, *, candidate_threshold: float) -> str:
        if self.threshold > candidate_threshold:
            return ""
        return _check_threshold("threshold", self.threshold, candidate_threshold, self.empty_is_hard)


OUTSIDE = Verdict(False, 0.0, "a score outside 0..1")


def scores_of(prediction: Prediction) -> list[float]:
    if prediction.probabilities:
        return [max(prediction.probabilities)]
    return [box.score for box in prediction.candidates]


def are_shares(values: list[float] | tuple[float, ...]) -> bool:
    """Not so for nan either. Softmax may end a rounding error above 1."""
    return all(-ROUNDING <= value <= 1 + 1e-6 for value in values)


def empty(is_hard: bool, *, least_hard: float) -> Verdict:
    """Of hard samples an empty one counts as the least hard: under a budget those go first where something is seen."""
    return Verdict(is_hard, least_hard if is_hard else 0.0, "nothing detected")


def _check_threshold(key: str, threshold: float, candidate_threshold: float, empty_is_hard: bool) -> str:
    only = ", only a picture in which nothing is seen" if empty_is_hard else ""
    return (
        f"{key} is {threshold:g}, and boxes are looked at from cand_threshold {candidate_threshold:g} on: "
        f"no box makes a sample hard{only}"
    )


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


MAX_SEED = 2**63 - 1


class Random:
    """Hard at random: uniform(0, 1) < random_ratio."""

    name: ClassVar[str] = "Random"
    needs_prediction: ClassVar[bool] = False
    description: ClassVar[str] = "Hard by chance, whatever the model says"
    parameters: ClassVar = (
        Parameter("random_ratio", "number", "0.3", "Share of the pictures that is hard", 0, 1),
        Parameter("seed", "whole", "", "The same seed draws the same pictures; empty: another each time", 0, MAX_SEED),
    )

    def __init__(self, parameters: Mapping[str, str]) -> None:
        given = ParameterReader(parameters)
        self.ratio = given.share("random_ratio", 0.3)
        seed = given.whole("seed", -1, least=0, most=MAX_SEED)
        self._draws = random.Random(seed if seed >= 0 else None)  # noqa: S311  # a sample is no secret

    def __call__(self, prediction: Prediction) -> Verdict:
        del prediction
        drawn = self._draws.random()
        return Verdict(drawn < self.ratio, 1 - drawn, f"drawn {drawn:.2f}")

    def never(self, *, candidate_threshold: float) -> str:
        del candidate_threshold
        return "random_ratio is 0: no sample is ever drawn" if self.ratio <= 0 else ""


class _Constant:
    """The same verdict on every sample."""

    needs_prediction: ClassVar[bool] = False
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    verdict: ClassVar[Verdict]

    def __init__(self, parameters: Mapping[str, str]) -> None:
        del parameters

    def __call__(self, prediction: Prediction) -> Verdict:
        del prediction
        return self.verdict

    def never(self, *, candidate_threshold: float) -> str:
        del candidate_threshold
        return ""


class CloudOnly(_Constant):
    """Everything goes up."""

    name: ClassVar[str] = "CloudOnly"
    description: ClassVar[str] = "Every picture is hard"
    verdict: ClassVar[Verdict] = Verdict(True, 1.0, "everything goes up")


class EdgeOnly(_Constant):
    """Nothing goes up, which is meant."""

    name: ClassVar[str] = "EdgeOnly"
    description: ClassVar[str] = "No picture is hard"
    verdict: ClassVar[Verdict] = Verdict(False, 0.0, "everything stays")
