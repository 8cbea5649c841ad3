"""The quality of answers, sample by sample, so that any mixture of answers can be summed. Pure.

Accuracy for classifiers; for detectors F1 at an IoU of .5, where a box is correct if it overlaps one of the same class
that no better box has taken. Without labels the big model's answer replaces them: agreement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from app.inference.agreement import matches
from app.inference.prediction import Prediction
from app.joint_inference.calibration.predictions import SamplePredictions

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Sums: TypeAlias = "npt.NDArray[np.float64]"
"""[n, 2]: the correct part and the whole of each sample; quality is the sum of the former divided by the sum of the
latter."""


class Kind(StrEnum):
    ACCURACY = "accuracy"
    F1 = "f1"
    LABEL_AGREEMENT = "label agreement"
    BOX_AGREEMENT = "box agreement"

    @property
    def is_agreement(self) -> bool:
        return self in (Kind.LABEL_AGREEMENT, Kind.BOX_AGREEMENT)


@dataclass(frozen=True)
class QualityMeasures:
    """The quality of both models on the same samples, in their order."""

    kind: Kind
    edge: Sums
    cloud: Sums


def measure(answers: Sequence[SamplePredictions]) -> QualityMeasures:
    """Measures against the truth if every sample has one of the kind that the models answer.

    Raises:
        ValueError: There are no samples.
    """
    import numpy as np

    kind = _get_kind(answers)
    edge = np.array([_judge_answer(kind, answer, answer.edge) for answer in answers], dtype=np.float64)
    cloud = np.array([_judge_answer(kind, answer, answer.cloud) for answer in answers], dtype=np.float64)
    return QualityMeasures(kind, edge, cloud)


def ratio(sums: Sums) -> float:
    """Returns the quality; 1 if there was nothing to find and nothing was found."""
    good, counted = sums.sum(axis=0)
    return float(good / counted) if counted else 1.0


def _get_kind(answers: Sequence[SamplePredictions]) -> Kind:
    if not answers:
        raise ValueError("there is no sample")
    if all(answer.edge.probabilities for answer in answers):
        return Kind.ACCURACY if all(a.truth.label is not None for a in answers) else Kind.LABEL_AGREEMENT
    return Kind.F1 if all(a.truth.boxes is not None for a in answers) else Kind.BOX_AGREEMENT


def _judge_answer(kind: Kind, answer: SamplePredictions, prediction: Prediction) -> tuple[float, float]:
    if kind is Kind.ACCURACY:
        return float(prediction.label == answer.truth.label), 1.0
    if kind is Kind.LABEL_AGREEMENT:
        return float(prediction.label == answer.cloud.label), 1.0
    truth = answer.truth.boxes if kind is Kind.F1 and answer.truth.boxes is not None else answer.cloud.boxes
    return 2.0 * matches(prediction.boxes, truth), float(len(prediction.boxes) + len(truth))
