"""A child in an environment of its own: aimet-onnx with its defaults. `python … REQUEST.json`"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
from aimet_onnx import QuantizationSimModel  # type: ignore[import-not-found]  # it lies in an environment of its own
from aimet_onnx.cross_layer_equalization import equalize_model  # type: ignore[import-not-found]

from ops.benchmarks.quantizers.array_reader import ArrayReader


def main(path: str) -> None:
    """The request: {"float": out.onnx, "arrays": .npy of N×input, "equalized": bool, "scheme", "output"}."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    model = onnx.load(request["float"])
    if request["equalized"]:
        equalize_model(model)
    simulation = QuantizationSimModel(model, quant_scheme=request["scheme"])
    simulation.compute_encodings(ArrayReader(request))
    onnx.save(simulation.to_onnx_qdq(prequantize_constants=True), request["output"])


if __name__ == "__main__":
    main(sys.argv[1])
