"""A child in an environment of its own: Neural Compressor's static quantization. `python … REQUEST.json`"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from onnx_neural_compressor.quantization import (  # type: ignore[import-not-found]  # in an environment of its own
    QuantFormat,
    config,
    quantize,
)

from ops.benchmarks.quantizers.array_reader import ArrayReader


def main(path: str) -> None:
    """The request: {"float": out.onnx, "arrays": .npy of N×input, "output"}."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    options = config.StaticQuantConfig(ArrayReader(request), quant_format=QuantFormat.QDQ, per_channel=True)
    quantize(request["float"], request["output"], options)


if __name__ == "__main__":
    main(sys.argv[1])
