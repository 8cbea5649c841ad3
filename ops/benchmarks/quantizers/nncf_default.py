"""A child in an environment of its own: nncf.quantize with its defaults. `python … REQUEST.json`"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import nncf  # type: ignore[import-not-found]  # it lies in an environment of its own
import numpy as np
import onnx


def main(path: str) -> None:
    """The request: {"float": out.onnx, "arrays": .npy of N×input, "output"}."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    model = onnx.load(request["float"])
    stored = {tensor.name for tensor in model.graph.initializer}
    name = next(value.name for value in model.graph.input if value.name not in stored)
    arrays = np.load(request["arrays"])
    data = nncf.Dataset(list(arrays), lambda array: {name: array[np.newaxis]})
    onnx.save(nncf.quantize(model, data, subset_size=len(arrays)), request["output"])


if __name__ == "__main__":
    main(sys.argv[1])
