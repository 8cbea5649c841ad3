"""What a decoder is: a family of models whose outputs are read alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from app.inference.decoders.suppression import suppressed
from app.inference.prediction import Box, Decoder, PredictorOptions
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Fit, Floats, Shape, Size, said

Outputs = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Port:
    """An output: its name and shape, batch included."""

    name: str
    shape: Shape

    @property
    def said(self) -> str:
        return said(self.shape)

    def fits(self, *shape: int | None) -> bool:
        """Can it be of this shape? None fits any side, in both."""
        return len(self.shape) == len(shape) and all(
            mine is None or its is None or mine == its for mine, its in zip(self.shape, shape, strict=True)
        )


@dataclass(frozen=True)
class Reading:
    """The parts of a Prediction that a decoder finds; see there."""

    boxes: tuple[Box, ...] = ()
    candidates: tuple[Box, ...] = ()
    probabilities: tuple[float, ...] = ()


class Family(Protocol):
    """Keeps no state between pictures, so threads may share it."""

    name: ClassVar[Decoder]
    preprocess: ClassVar[Preprocess]
    """What its models are fed with, where nobody says otherwise."""
    usual_size: ClassVar[Size]
    """Of an input that leaves its sides open; zeros where there is none."""

    def fits(self, ports: Sequence[Port], size: Size) -> bool:
        """Are these the outputs of such a model with an input of this size? Zeros: the size is not known yet."""

    def read(self, outputs: Outputs, fit: Fit, size: Size, options: PredictorOptions) -> Reading:
        """size: of the input. Raises InferenceFailed for an answer that holds no numbers."""


@dataclass(frozen=True)
class Found:
    """N boxes: corners in pixels of the input, N×4; scores and classes."""

    corners: Floats
    scores: Floats
    labels: npt.NDArray[np.intp]


class Detector:
    """What all detectors have in common: thresholds, suppression, and the way back to the picture's pixels."""

    def find(self, outputs: Outputs, size: Size, floor: float) -> Found:
        """Boxes that score `floor` or more."""
        raise NotImplementedError

    def read(self, outputs: Outputs, fit: Fit, size: Size, options: PredictorOptions) -> Reading:
        floor = min(options.candidate_threshold, options.score_threshold)
        with np.errstate(all="ignore"):
            found = self.find(outputs, size, floor)
            corners = fit.to_source(found.corners)
        kept = suppressed(corners, found.scores, found.labels, options.nms_threshold)
        candidates = tuple(
            Box(x1, y1, x2, y2, score, label)
            for (x1, y1, x2, y2), score, label in zip(
                corners[kept].tolist(), found.scores[kept].tolist(), found.labels[kept].tolist(), strict=True
            )
        )
        return Reading(tuple(box for box in candidates if box.score >= options.score_threshold), candidates)
