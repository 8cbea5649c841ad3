"""Types and shapes of inner tensors that onnx's inference does not know. onnxruntime infers more (its own operators,
functions of the model, GroupNormalization), and a tensor of unknown type cannot be quantized."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from app.conversion.toolchains.host.calibration import bytes_with_outputs
from app.inference.runtimes.sessions import open_session
from app.kit.errors import ModelmillError


def complete_types(model: Any) -> Any:
    """Returns the model (onnx.ModelProto) with the types that onnxruntime knows, or unchanged if it does not know
    more."""
    values = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    known = {value.name for value in values if value.type.tensor_type.elem_type}
    missing = [name for node in model.graph.node for name in node.output if name and name not in known]
    if not missing:
        return model
    try:
        session = open_session(bytes_with_outputs(model, missing), 1, "none")
    except ModelmillError:
        return model
    return _with_types(model, [value for value in session.get_outputs() if value.name in set(missing)])


def _with_types(model: Any, values: list[Any]) -> Any:
    """Adds types to the model.

    Args:
        values: onnxruntime.NodeArg.
    """
    from onnx import TensorProto, helper

    kinds = {"float": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "double": TensorProto.DOUBLE}
    fresh = deepcopy(model)
    old = {value.name for value in values}
    kept = [value for value in fresh.graph.value_info if value.name not in old]
    del fresh.graph.value_info[:]
    fresh.graph.value_info.extend(kept)
    for value in values:
        kind = kinds.get(value.type.removeprefix("tensor(").removesuffix(")"))
        if kind is not None:
            fresh.graph.value_info.append(helper.make_tensor_value_info(value.name, kind, value.shape))
    return fresh
