"""Networks with attention: element-wise operators between its layers stay in float, whatever is between its weights and
the product that reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.quantization_plan import plan

TOKENS, WIDTH = 6, 8
FORMS: dict[str, list[tuple[str, list[str], dict[str, Any]]]] = {
    "directly": [],
    "exchanged axes": [("Transpose", ["s"], {"perm": [0, 2, 1]})],
    "no NaN of masked rows": [("IsNaN", ["s"], {}), ("Where", ["p0", "zero", "s"], {})],
    "masked and divided again": [
        ("Mul", ["s", "mask"], {}),
        ("ReduceSum", ["p0"], {}),
        ("Div", ["p0", "p1"], {}),
    ],
    "dropout": [("Dropout", ["s"], {})],
}


def network(between: list[tuple[str, list[str], dict[str, Any]]], last: NodeProto) -> onnx.ModelProto:
    """Two layers whose sum a Softmax weights: x (1, 6, 8) → y. The nodes between have the outputs p0, p1, …; the last
    node reads what is before it as its first input, unless that has a name."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "first"),
        helper.make_node("MatMul", ["h", "w"], ["k"], "second"),
        helper.make_node("Add", ["h", "k"], ["sum"], "sum"),
        helper.make_node("Transpose", ["k"], ["t"], "keys", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["sum", "t"], ["scores"], "scores"),
        helper.make_node("Softmax", ["scores"], ["s"], "softmax", axis=-1),
    ]
    for place, (kind, inputs, attributes) in enumerate(between):
        nodes.append(helper.make_node(kind, inputs, [f"p{place}"], f"between{place}", **attributes))
    last.input[0] = last.input[0] or nodes[-1].output[0]
    square = np.random.default_rng(1).normal(size=(WIDTH, WIDTH)).astype(np.float32)
    constants = {"w": square, "zero": np.zeros((), np.float32), "mask": np.ones((TOKENS, TOKENS), np.float32)}
    constants["kernel"] = np.ones((2, TOKENS, 1), np.float32)
    graph = helper.make_graph(
        [*nodes, last],
        "attention",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, TOKENS, WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "rows", "columns"])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    onnx.checker.check_model(model)
    return onnx.shape_inference.infer_shapes(model)


def quantized_nodes(model: onnx.ModelProto) -> set[str]:
    return set(plan(model, HostQuantization()).nodes)


def product() -> NodeProto:
    return helper.make_node("MatMul", ["", "h"], ["y"], "product")


@pytest.mark.parametrize("form", FORMS)
def test_between_layers_of_attention_element_wise_operators_stay_in_float(form: str) -> None:
    nodes = quantized_nodes(network(FORMS[form], product()))
    assert {"first", "second", "product"} <= nodes and "sum" not in nodes


def test_the_product_may_be_an_einsum() -> None:
    product = helper.make_node("Einsum", ["", "h"], ["y"], "product", equation="bij,bjk->bik")
    nodes = quantized_nodes(network([], product))
    assert {"first", "second"} <= nodes and "sum" not in nodes


def test_attention_may_be_one_operator() -> None:
    attention = helper.make_node("Attention", ["sum", "k", "h"], ["y"], "product", q_num_heads=2, kv_num_heads=2)
    assert "sum" not in quantized_nodes(network([], attention))


def test_a_softmax_that_a_convolution_reads_is_no_attention() -> None:
    """Distributions of a detector's distances, whose means the last convolution computes."""
    means = helper.make_node("Conv", ["", "kernel"], ["y"], "means")
    assert "sum" in quantized_nodes(network(FORMS["exchanged axes"], means))
