"""Classifiers: one row of probabilities, or of logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from app.inference.decoders.base import DecodedOutputs, Outputs, OutputSpec
from app.inference.decoders.scores import require_numbers
from app.inference.prediction import Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Fit, Size

TOLERANCE = 0.05
"""Probabilities of an int8 model do not sum to exactly 1."""
ROUGHLY = 0.5


class Classifier:
    """One output, N×C with C of 2 or more, or N×C×1×1. Only the first row counts, since a batch repeats one picture."""

    name: ClassVar[Decoder] = Decoder.CLASSIFIER
    preprocess: ClassVar[Preprocess] = Preprocess()
    usual_size: ClassVar[Size] = (0, 0)

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        """See `ModelFamily.usual_labels`."""
        return ()

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if len(ports) != 1:
            return False
        port = ports[0]
        return (port.fits(None, None) or port.fits(None, None, 1, 1)) and port.shape[1] != 1

    def is_typical(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        """See `ModelFamily.is_typical`."""
        return True

    def read(self, outputs: Outputs, fit: Fit, size: Size, options: PredictorOptions) -> DecodedOutputs:
        """See `ModelFamily.read`."""
        (values,) = outputs.values()
        return DecodedOutputs(probabilities=tuple(probabilities(values.reshape(values.shape[0], -1)[0]).tolist()))


def may_be_probabilities(row: npt.NDArray[np.floating]) -> bool:
    """Returns whether a row may be probabilities, with a tolerance: an int8 model is less exact, and a regressor may
    answer anything."""
    return bool(row.min() >= -ROUGHLY and abs(row.sum() - 1) <= ROUGHLY)


def probabilities(row: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Returns probabilities: a row that sums to about 1 without a negative value is used as it is, any other as
    logits."""
    values = row.astype(np.float64)
    require_numbers(values)
    if values.min() >= -TOLERANCE and abs(values.sum() - 1) <= TOLERANCE:
        shares = np.clip(values, 0, None)
    else:
        shares = np.exp(values - values.max())
    scaled: npt.NDArray[np.float64] = shares / shares.sum()
    return scaled
