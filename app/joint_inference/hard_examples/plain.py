"""Algorithms that do not look at the prediction: what the others are compared with."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import ClassVar

from app.inference.prediction import Prediction
from app.joint_inference.hard_examples.base import Parameter, Verdict
from app.joint_inference.hard_examples.parameters import ParameterReader

MAX_SEED = 2**63 - 1


class Random:
    """Hard by chance: uniform(0, 1) < random_ratio."""

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


class CloudOnly:
    """Everything goes up."""

    name: ClassVar[str] = "CloudOnly"
    needs_prediction: ClassVar[bool] = False
    description: ClassVar[str] = "Every picture is hard"
    parameters: ClassVar[tuple[Parameter, ...]] = ()

    def __init__(self, parameters: Mapping[str, str]) -> None:
        del parameters

    def __call__(self, prediction: Prediction) -> Verdict:
        del prediction
        return Verdict(True, 1.0, "everything goes up")

    def never(self, *, candidate_threshold: float) -> str:
        del candidate_threshold
        return ""


class EdgeOnly:
    """Nothing goes up, which is meant."""

    name: ClassVar[str] = "EdgeOnly"
    needs_prediction: ClassVar[bool] = False
    description: ClassVar[str] = "No picture is hard"
    parameters: ClassVar[tuple[Parameter, ...]] = ()

    def __init__(self, parameters: Mapping[str, str]) -> None:
        del parameters

    def __call__(self, prediction: Prediction) -> Verdict:
        del prediction
        return Verdict(False, 0.0, "everything stays")

    def never(self, *, candidate_threshold: float) -> str:
        del candidate_threshold
        return ""
