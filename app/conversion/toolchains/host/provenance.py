"""The provenance of an artifact: hashes of its ancestors, tool versions, options; stored in ONNX metadata_props."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from app.conversion.toolchains import graph
from app.conversion.toolchains.host.versions import tool_versions

__all__ = ["inputs_of", "read", "tool_versions", "write"]

PREFIX = "modelmill."
KIND = PREFIX + "kind"
TOOLCHAIN = PREFIX + "toolchain"
SOURCE_SHA256 = PREFIX + "source_sha256"
ONNX_SHA256 = PREFIX + "onnx_sha256"
CALIBRATION = PREFIX + "calibration"
QUANTIZATION = PREFIX + "quantization"
PREPROCESS = PREFIX + "preprocess"
VERSIONS = PREFIX + "versions"
INPUT_SHAPES = PREFIX + "input_shapes"
"""For a graph whose inputs had to stay open: the shapes for which it was converted."""


def read(model: Any) -> dict[str, str]:
    """Returns the metadata_props of an onnx.ModelProto."""
    return {prop.key: prop.value for prop in model.metadata_props}


def inputs_of(model: Any) -> list[graph.TensorSpec]:
    """Returns the inputs of an artifact, with the shapes for which it was converted."""
    shapes: dict[str, list[int]] = json.loads(read(model).get(INPUT_SHAPES, "{}"))
    return [replace(spec, shape=tuple(shapes.get(spec.name, spec.shape))) for spec in graph.graph_inputs(model)]


def write(model: Any, values: dict[str, Any]) -> None:
    """Set metadata_props; values that are not text are written as JSON with sorted keys. Other keys stay."""
    others = [prop for prop in model.metadata_props if prop.key not in values]
    pairs = [(prop.key, prop.value) for prop in others]
    pairs += [(key, v if isinstance(v, str) else json.dumps(v, sort_keys=True)) for key, v in sorted(values.items())]
    del model.metadata_props[:]
    for key, value in pairs:
        model.metadata_props.add(key=key, value=value)
