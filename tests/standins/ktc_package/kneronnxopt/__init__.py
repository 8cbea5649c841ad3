"""Stand-in for the vendor's optimizer: checks what it checks, and drops Identity and Dropout nodes."""

import os

import onnx
from onnx import shape_inference

from ktc.failures import provoke

if os.environ.get("KTC_STANDIN_OLD"):
    raise ImportError("No module named 'kneronnxopt'")

__version__ = "0.0.0-standin"


def optimize(
    model,
    duplicate_shared_weights=1,
    skip_check=False,
    overwrite_input_shapes=None,
    convert_f16=True,
    skipped_optimizers=None,
    skip_fuse_qkv=False,
    clear_descriptions=False,
    opt_matmul=False,
    clear_shapes=False,
    replace_avgpool_with_conv=False,
    replace_dilated_conv=False,
    defuse_gaps=False,
):
    assert isinstance(model, onnx.ModelProto), "model must be a ModelProto"
    if model.ir_version > 9:
        raise RuntimeError(
            "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Unsupported model IR version: %d, "
            "max supported IR version: 9" % model.ir_version
        )
    opset = max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if opset > 18:
        raise RuntimeError(
            "Opset %d is under development. Current official support for domain ai.onnx is till opset 18." % opset
        )
    if not clear_shapes:
        provoke("optimize", model)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in weights}
    for entry in overwrite_input_shapes or []:
        name, _, sizes = entry.rpartition(":")
        shape = [int(size) for size in sizes.split(",")]
        value = inputs[name] if name else next(iter(inputs.values()))
        dims = value.type.tensor_type.shape.dim
        assert len(dims) == len(shape), "rank of %s" % value.name
        for dim, size in zip(dims, shape):
            dim.dim_value = size
    for value in inputs.values():
        assert all(dim.dim_value > 0 for dim in value.type.tensor_type.shape.dim), "dynamic shape of " + value.name
    optimized = onnx.ModelProto()
    optimized.CopyFrom(model)
    _drop(optimized.graph)
    if clear_shapes:
        del optimized.graph.value_info[:]
    onnx.checker.check_model(optimized)
    print("kneronnxopt: %d -> %d nodes" % (len(model.graph.node), len(optimized.graph.node)))
    return shape_inference.infer_shapes(optimized)


def _drop(graph):
    outputs = {value.name for value in graph.output}
    renamed = {}
    kept = []
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name in renamed:
                node.input[index] = renamed[name]
        if node.op_type in ("Identity", "Dropout") and node.output[0] not in outputs:
            renamed[node.output[0]] = node.input[0]
        else:
            kept.append(node)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(copies)
