"""Factors of Gemm (alpha, beta) are multiplied into its constants: onnxruntime quantizes the bias without them, which
gives other results than the float model's."""

from __future__ import annotations

from typing import Any

from app.conversion.toolchains.host.inputs import Array


def fold_gemm_factors(model: Any) -> list[str]:
    """Args: model: onnx.ModelProto, which is changed."""
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
            node.input[place] = _scaled(model.graph, tensor, factor.f)
            factor.f, changed = 1.0, changed + 1
    return [f"{changed} factors of Gemm are now in its weights"] if changed else []


def _scaled(graph: Any, tensor: Any, factor: float) -> str:
    """The name of a copy times the factor; there is one for all that need the same, and weights may be shared."""
    from onnx import numpy_helper

    name = f"{tensor.name}_times_{factor:g}"
    if all(known.name != name for known in graph.initializer):
        values: Array = numpy_helper.to_array(tensor)
        graph.initializer.append(numpy_helper.from_array((values * factor).astype(values.dtype), name))
    return name
