"""A child in an environment of its own: AMD Quark with one of its presets for int8. `python … REQUEST.json`"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from quark.onnx import ModelQuantizer  # type: ignore[import-not-found]  # it lies in an environment of its own
from quark.onnx.quantization.config import Config, get_default_config  # type: ignore[import-not-found]

from ops.benchmarks.quantizers.array_reader import ArrayReader


def main(path: str) -> None:
    """The request: {"float": out.onnx, "arrays": .npy of N×input, "preset", "output"}."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    quantizer = ModelQuantizer(Config(global_quant_config=get_default_config(request["preset"])))
    quantizer.quantize_model(request["float"], request["output"], ArrayReader(request))


if __name__ == "__main__":
    main(sys.argv[1])
