"""Calibration data for the tools that read it as onnxruntime's quantizer does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader


class ArrayReader(CalibrationDataReader):
    """Gives the prepared pictures one by one.

    Args:
        request: {"float": the model, "arrays": .npy of N×input}.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        session = onnxruntime.InferenceSession(request["float"], providers=["CPUExecutionProvider"])
        self.name = session.get_inputs()[0].name
        self._arrays = np.load(request["arrays"])
        self.rewind()

    def get_next(self) -> dict[str, np.ndarray] | None:
        array = next(self._left, None)
        return None if array is None else {self.name: array[np.newaxis]}

    def rewind(self) -> None:
        self._left = iter(self._arrays)
