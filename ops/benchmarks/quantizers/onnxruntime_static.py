"""A child, stand-alone: onnxruntime's quantize_static as its documentation has it. `python … REQUEST.json`"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process


class Arrays(quantization.CalibrationDataReader):
    def __init__(self, name: str, arrays: np.ndarray) -> None:
        self._name, self._left = name, iter(arrays)

    def get_next(self) -> dict[str, np.ndarray] | None:
        array = next(self._left, None)
        return None if array is None else {self._name: array[np.newaxis]}


def main(path: str) -> None:
    """The request: {"float": out.onnx, "arrays": .npy of N×input, "method", "output"}."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    session = onnxruntime.InferenceSession(request["float"], providers=["CPUExecutionProvider"])
    prepared = request["output"] + ".prepared.onnx"
    quant_pre_process(request["float"], prepared, skip_symbolic_shape=True)
    quantization.quantize_static(
        prepared,
        request["output"],
        Arrays(session.get_inputs()[0].name, np.load(request["arrays"])),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        calibrate_method=getattr(quantization.CalibrationMethod, request["method"]),
    )


if __name__ == "__main__":
    main(sys.argv[1])
