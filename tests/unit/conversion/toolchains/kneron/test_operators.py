from __future__ import annotations

import json
from importlib.resources import files

import onnx
import pytest
from onnx import TensorProto, helper

from app.conversion.options import Chip
from app.conversion.toolchains.kneron import operators
from app.conversion.toolchains.kneron.operators import probably_missing, runs_on_npu


def graph_of(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    graph = helper.make_graph(list(nodes), "g", [value], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    return helper.make_model(graph)


def node(kind: str, name: str = "n", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(kind, ["x"], ["y"], name=name, **attributes)


def missing(chip: Chip, *nodes: onnx.NodeProto) -> dict[str, dict]:
    return {entry["operator"]: entry for entry in probably_missing(chip, graph_of(*nodes))}


def test_the_table_counts_what_the_vendor_counts_per_chip() -> None:
    table = json.loads(files("app.conversion.toolchains.kneron").joinpath("operators.json").read_text())["ops"]
    counts = {chip.value: sum(runs_on_npu(chip, name) for name in table) for chip in Chip}
    assert counts == {"520": 22, "720": 36, "530": 44, "630": 44, "730": 53}


def test_the_table_names_its_source_and_licence() -> None:
    assert "document_center" in operators.source() and "CC BY-SA 4.0" in operators.source()


def test_an_operator_outside_the_list_is_named_with_count_and_first_five_nodes() -> None:
    operators = missing(Chip.KL520, *(node("Sigmoid", f"s{i}") for i in range(7)))
    assert operators["Sigmoid"]["count"] == 7
    assert operators["Sigmoid"]["nodes"] == ["s0", "s1", "s2", "s3", "s4"]
    assert "cut it off" in operators["Sigmoid"]["note"]


def test_what_one_chip_lacks_another_may_have() -> None:
    assert "Sigmoid" not in missing(Chip.KL720, node("Sigmoid"))
    assert "LayerNormalization" in missing(Chip.KL630, node("LayerNormalization"))
    assert "LayerNormalization" not in missing(Chip.KL730, node("LayerNormalization"))


@pytest.mark.parametrize("kind", ["Shape", "Identity", "Unsqueeze", "Constant", "Dropout"])
def test_operators_that_the_optimizer_folds_are_not_reported(kind: str) -> None:
    assert missing(Chip.KL520, node(kind)) == {}


def test_an_operator_that_is_decomposed_gets_a_softer_note() -> None:
    assert "may split it into Exp" in missing(Chip.KL520, node("Softmax"))["Softmax"]["note"]


def test_an_operator_of_another_domain_is_named_with_it() -> None:
    custom = helper.make_node("Magic", ["x"], ["y"], domain="com.example")
    assert "com.example" in missing(Chip.KL730, custom)["Magic"]["note"]


def test_operators_in_nested_graphs_count() -> None:
    inner = graph_of(node("Erf", "inside")).graph
    operators = missing(Chip.KL720, helper.make_node("Loop", ["x"], ["y"], body=inner))
    assert operators["Erf"]["nodes"] == ["inside"]


def test_a_convolution_beyond_the_limits_of_a_chip_is_named() -> None:
    assert "13x13" in missing(Chip.KL520, node("Conv", kernel_shape=[13, 13]))["Conv"]["note"]
    assert missing(Chip.KL530, node("Conv", kernel_shape=[13, 13])) == {}
    for chip in (Chip.KL520, Chip.KL720):
        assert "5x1" in missing(chip, node("Conv", kernel_shape=[3, 3], strides=[5, 1]))["Conv"]["note"]
        assert "1x17" in missing(chip, node("Conv", kernel_shape=[3, 3], strides=[1, 17]))["Conv"]["note"]
        assert missing(chip, node("Conv", kernel_shape=[12, 12], strides=[4, 16])) == {}


def test_the_most_frequent_operator_comes_first() -> None:
    operators = probably_missing(Chip.KL520, graph_of(node("Tanh"), node("Sigmoid"), node("Sigmoid")))
    assert [entry["operator"] for entry in operators] == ["Sigmoid", "Tanh"]
