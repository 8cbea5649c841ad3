"""A child, stand-alone: onnxruntime's quantize_static as its documentation has it. `python … REQUEST.json`"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

from ops.benchmarks.quantizers.array_reader import ArrayReader


def main(path: str) -> None:
    """The request: {"float": out.onnx, "arrays": .npy of N×input, "method", "output"}."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    prepared = request["output"] + ".prepared.onnx"
    quant_pre_process(request["float"], prepared, skip_symbolic_shape=True)
    quantization.quantize_static(
        prepared,
        request["output"],
        ArrayReader(request),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=True,
        calibrate_method=getattr(quantization.CalibrationMethod, request["method"]),
    )


if __name__ == "__main__":
    main(sys.argv[1])
