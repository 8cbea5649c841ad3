"""Multiplies the factors of Gemm (alpha, beta) into its constants: onnxruntime quantizes the bias without them, and so
changes the results."""

from __future__ import annotations

from typing import Any

from app.conversion.toolchains.host.inputs import Array


def fold_gemm_factors(model: Any) -> list[str]:
    """Multiplies the factors of all Gemm nodes into their constants.

    Args:
        model: onnx.ModelProto, which is changed.

    Returns:
        A sentence for each change.
    """
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    changed = 0
    for node in model.graph.node:
        if node.op_type != "Gemm":
            continue
        factors = {attribute.name: attribute for attribute in node.attribute if attribute.name in ("alpha", "beta")}
        for name, place in (("alpha", 1), ("beta", 2)):
            factor = factors.get(name)
            tensor = constants.get(node.input[place]) if len(node.input) > place else None
            if factor is None or factor.f == 1.0 or tensor is None:
                continue
            node.input[place] = _add_scaled(model.graph, tensor, factor.f)
            factor.f, changed = 1.0, changed + 1
    return [f"{changed} factors of Gemm are now in its weights"] if changed else []


def _add_scaled(graph: Any, tensor: Any, factor: float) -> str:
    """Returns the name of a scaled copy; one copy serves all nodes that need the same, and the original may be
    shared."""
    from onnx import numpy_helper

    name = f"{tensor.name}_times_{factor:g}"
    if all(known.name != name for known in graph.initializer):
        values: Array = numpy_helper.to_array(tensor)
        graph.initializer.append(numpy_helper.from_array((values * factor).astype(values.dtype), name))
    return name
