"""Relu and Clip after a weighted layer: onnxruntime's quantizer removes them, since rounding clips at the same bounds.
So the quantized range must not extend beyond these bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.conversion.toolchains.host.calibration import Range

FUSED_ACTIVATIONS = frozenset({"Relu", "Clip"})
"""Operators that become part of the weighted layer before them."""
UNBOUNDED: Range = (-np.inf, np.inf)


def is_fused_operator(node: Any) -> bool:
    return node.op_type in FUSED_ACTIVATIONS


def bounds_of(node: Any, constants: Mapping[str, Any]) -> Range:
    """Returns the bounds of a Relu or a Clip; infinite if unknown.

    Args:
        node: onnx.NodeProto.
        constants: onnx.TensorProto by name.
    """
    from onnx import helper, numpy_helper

    if node.op_type == "Relu":
        return 0.0, np.inf
    known = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    for name, tensor in zip(("min", "max"), node.input[1:], strict=False):
        if tensor in constants:
            known[name] = float(numpy_helper.to_array(constants[tensor]))
    return float(known.get("min", -np.inf)), float(known.get("max", np.inf))


def holds_zero(bounds: Range) -> bool:
    """Returns whether rounding can clip at these bounds: the range of integers always includes zero."""
    return bounds[0] <= 0.0 <= bounds[1]
