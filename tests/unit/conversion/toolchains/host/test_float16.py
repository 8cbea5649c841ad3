"""Models in float16: they are quantized from a form that computes in float32, so all of a search applies to them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.conversion.model import Stage
from app.conversion.options import HostQuantization, Options
from app.conversion.toolchains.graph import walk
from app.conversion.toolchains.host import graph_surgery
from app.conversion.toolchains.host.float32_form import compute_in_float32
from app.conversion.toolchains.host.output_saturation import logits_of
from app.inference.runtimes.sessions import open_session, run
from tests.harness.models.host import model_of, pictures, random_weights, run_stage, work_folder
from tests.unit.conversion.toolchains.host.search.test_search import network

SIDE = 16


def half(model: Any) -> Any:
    """The model with all of its float32 in float16."""
    for tensor in walk.tensors(model):
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for graph in walk.graphs(model):
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = TensorProto.FLOAT16
        del graph.value_info[:]
    return onnx.shape_inference.infer_shapes(model)


def branching() -> Any:
    """x → Conv, a cast to float32 and back, + a filled tensor, If with constants, sigmoid; its inner tensors are read
    by the branches."""

    def branch(name: str, value: float) -> Any:
        nodes = [
            helper.make_node("Constant", [], [f"{name}_c"], value=numpy_helper.from_array(np.array(value, np.float32))),
            helper.make_node("Mul", ["x", f"{name}_c"], [f"{name}_m"]),
            helper.make_node("ReduceMean", [f"{name}_m"], [name], keepdims=0),
        ]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [])])

    filling = numpy_helper.from_array(np.array([0.25], np.float32))
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["c"], ["c32"], "up", to=TensorProto.FLOAT),
        helper.make_node("Cast", ["c32"], ["c16"], "down", to=TensorProto.FLOAT16),
        helper.make_node("Shape", ["c16"], ["shape"], "shape"),
        helper.make_node("ConstantOfShape", ["shape"], ["filled"], "fill", value=filling),
        helper.make_node("Add", ["c16", "filled"], ["a"], "add"),
        helper.make_node("If", ["flag"], ["i"], "if", then_branch=branch("t", 2.0), else_branch=branch("e", 3.0)),
        helper.make_node("Add", ["a", "i"], ["s"], "sum"),
        helper.make_node("Sigmoid", ["s"], ["y"], "sigmoid"),
    ]
    weights = {"w": random_weights(4, 3, 3, 3), "b": random_weights(4), "flag": np.array(True)}
    return half(
        model_of(nodes, {"x": [1, 3, SIDE, SIDE]}, {"y": [1, 4, SIDE, SIDE], "c16": [1, 4, SIDE, SIDE]}, weights)
    )


def test_the_form_in_float32_computes_the_same_from_and_to_float16() -> None:
    model = branching()
    picture = {"x": np.random.default_rng(2).normal(size=(1, 3, SIDE, SIDE)).astype(np.float16)}
    expected = run(open_session(model.SerializeToString(), 1), picture)
    compute_in_float32(model)
    onnx.checker.check_model(model, full_check=True)
    got = run(open_session(model.SerializeToString(), 1), picture)
    for name, values in expected.items():
        assert got[name].dtype == np.float16
        np.testing.assert_allclose(got[name], values, atol=4e-3)
    assert TensorProto.FLOAT16 not in {tensor.data_type for tensor in walk.tensors(model)}
    casts = [node for node in walk.nodes(model) if node.op_type == "Cast"]
    assert len(casts) == 3, "of the input and the two outputs"
    assert logits_of(model) == {"y": "s"}, "a sigmoid before the last cast is one of the output"


@pytest.mark.slow
@pytest.mark.parametrize("opset", [17, 19])
def test_a_search_measures_single_tensors_so_few_get_16_bits(tmp_path: Path, opset: int) -> None:
    model = network(outlier=40.0, activation="Softplus", side=SIDE)
    model.opset_import[0].version = opset
    options = Options(quantization=HostQuantization(goal="snr>=30", budget_s=120))
    folder = work_folder(tmp_path, half(model), pictures(9))
    run_stage(Stage.ONNX, folder, options)
    report = run_stage(Stage.BIE, folder, options).report
    taken = report["search"]["candidates"][report["search"]["taken"]]
    assert report["goal"]["is_reached"], report["search"]["candidates"]
    assert report["search"]["sensitivity"][0]["tensor"] in ("a", "b"), "the widened ones"
    assert 0 < taken["tensors_16"] <= 4, "of four activations and three weights"
    assert report["quality"]["outputs"][0]["snr_db"]["mean"] > 30
    made = onnx.load(str(folder / "out.bie"))
    ends = [value.type.tensor_type.elem_type for value in (*made.graph.input, *made.graph.output)]
    assert ends == [TensorProto.FLOAT16] * 2
    assert TensorProto.FLOAT16 not in {tensor.data_type for tensor in made.graph.initializer}


@pytest.mark.slow
@pytest.mark.parametrize("is_half", [True, False])
def test_a_difference_of_50_db_is_rounding_in_float16_and_another_result_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_half: bool
) -> None:
    def simplify(model: Any) -> graph_surgery.PreparedModel:
        changed = copy.deepcopy(model)
        values = numpy_helper.to_array(changed.graph.initializer[-1])
        other = (values * 1.003).astype(values.dtype)
        changed.graph.initializer[-1].CopyFrom(numpy_helper.from_array(other, changed.graph.initializer[-1].name))
        return graph_surgery.PreparedModel(changed, ["simplified"])

    monkeypatch.setattr(graph_surgery, "simplify", simplify)
    model = network(side=SIDE)
    del model.graph.node[1:], model.graph.initializer[1:]
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 6, SIDE, SIDE]))
    report = run_stage(Stage.ONNX, work_folder(tmp_path, half(model) if is_half else model, pictures(4))).report
    assert ("simplified" in report["changes"]) == is_half
    assert ("not simplified" in "".join(report["warnings"])) == (not is_half)
