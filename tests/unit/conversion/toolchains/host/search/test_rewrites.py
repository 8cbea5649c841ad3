"""Channels that widen a tensor are smoothed or split, where the predicted noise falls by it and the search measures
that it pays; the last layers may stay in float with the post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from app.conversion.goals import AS_GIVEN, parse_goal
from app.conversion.options import HostQuantization, QuantizationStep
from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.quantization_plan import plan
from app.conversion.toolchains.host.search import sensitivity
from app.conversion.toolchains.host.search.boundary import boundaries
from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.channel_noise import noise, rows_of
from app.conversion.toolchains.host.search.outlier_channels import split_channels
from app.conversion.toolchains.host.search.recipe import choice_of
from app.conversion.toolchains.host.search.result import SearchResult
from app.conversion.toolchains.host.search.search import QuantizationSearch
from app.conversion.toolchains.host.search.smooth_quant import SMOOTHED, smooth
from app.conversion.toolchains.host.search.template import Precision, Template
from app.inference.runtimes.sessions import open_session, run
from app.kit.sandbox.errors import StageFailed
from tests.harness.models.host import model_of, random_weights
from tests.unit.conversion.toolchains.host.search.test_search import Picture, network, pictures, snr_db

pytestmark = pytest.mark.slow  # nearly each of them converts a model

TOKENS, WIDTH, WIDE = 6, 16, 60.0


def sequences(count: int) -> list[Picture]:
    drawn = np.random.default_rng(5).normal(size=(count, 1, TOKENS, WIDTH)).astype(np.float32)
    return [Picture(f"p{place}", {"x": array}) for place, array in enumerate(drawn)]


def attention(*, is_post_norm: bool = False, wide: float = WIDE) -> Any:
    """A block of a transformer whose LayerNorm widens a channel; with `is_post_norm` its output is added later, too."""
    gain = np.ones(WIDTH, np.float32)
    gain[3] = wide
    rows = random_weights(WIDTH, WIDTH, seed=1)
    rows[3] /= wide
    nodes = [
        helper.make_node("LayerNormalization", ["x", "gain", "shift"], ["n"], "norm", axis=-1),
        helper.make_node("MatMul", ["n", "wq"], ["q"], "query"),
        helper.make_node("MatMul", ["n", "wk"], ["k"], "key"),
        helper.make_node("MatMul", ["n", "wv"], ["v"], "value"),
        helper.make_node("Transpose", ["k"], ["kt"], "transpose", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["s"], "scores"),
        helper.make_node("Softmax", ["s"], ["p"], "softmax", axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["a"], "mix"),
        helper.make_node("MatMul", ["a", "wo"], ["o"], "out"),
        helper.make_node("Add", ["o", "n" if is_post_norm else "x"], ["y"], "residual"),
    ]
    weights = {
        "gain": gain,
        "shift": random_weights(WIDTH, seed=2),
        "wq": rows / 2,
        "wk": rows[:, ::-1].copy() / 2,
        "wv": 2 * np.roll(rows, 1, axis=1),
        "wo": random_weights(WIDTH, WIDTH, seed=3),
    }
    shape = [1, TOKENS, WIDTH]
    return onnx.shape_inference.infer_shapes(model_of(nodes, {"x": shape}, {"y": shape}, weights))


def rows_for(samples: list[Picture]) -> Any:
    return lambda model, tensors: dict(rows_of(model, tensors, samples, 1))


def outputs(model: Any, sample: Picture) -> Mapping[str, Array]:
    return run(open_session(model.SerializeToString(), 1), sample.arrays)


def constants(model: Any) -> dict[str, Array]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def result_of(model: Any, samples: list[Picture], goal: str, steps: Any = ()) -> SearchResult:
    options = HostQuantization.model_validate({"goal": goal, "steps": steps})
    return QuantizationSearch(
        model,
        plan(model, options),
        samples,
        options,
        parse_goal(goal) if goal else AS_GIVEN,
        threads=1,
        meter_of=lambda: None,
        step=lambda *_: None,
    ).run()


# --- smoothing ------------------------------------------------------------------------------------------


def test_a_layer_norm_takes_the_division_where_only_products_read_it() -> None:
    model = attention()
    done = smooth(model, rows_for(sequences(3)))
    before, after = constants(model), constants(done.model)
    assert done.is_same_shape and "n" in done.tensors and not done.left_in_float
    factors = before["gain"] / after["gain"]
    assert factors.argmax() == 3 and factors[3] > 4 * np.median(factors)
    np.testing.assert_allclose(after["wq"], before["wq"] * factors[:, None], rtol=1e-5)
    expected, actual = (outputs(one, sequences(1)[0])["y"] for one in (model, done.model))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_a_product_before_the_layers_divides_what_others_read_as_well() -> None:
    model = attention(is_post_norm=True)
    done = smooth(model, rows_for(sequences(3)))
    assert f"n{SMOOTHED}" in done.tensors and done.left_in_float == {"n"}
    nodes = {node.name: node for node in done.model.graph.node}
    assert nodes["query"].input[0] == nodes["value"].input[0] == f"n{SMOOTHED}"
    assert nodes["residual"].input[1] == "n"
    expected, actual = (outputs(one, sequences(1)[0])["y"] for one in (model, done.model))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_even_channels_are_not_smoothed() -> None:
    assert not smooth(attention(wide=1.0), rows_for(sequences(3))).tensors


@pytest.mark.parametrize("is_post_norm", [False, True])
def test_the_search_smooths_attention_where_that_is_measured_better(is_post_norm: bool) -> None:
    result = result_of(model := attention(is_post_norm=is_post_norm), sequences(9), "snr>=45")
    narrow = [one for one in result.search["candidates"] if not one["tensors_16"]]
    best = max(narrow, key=lambda one: one["snr_db"])
    assert "smoothing" in [step["kind"] for step in best["steps"]]
    assert best["snr_db"] > max(one["snr_db"] for one in narrow if "smoothed" not in one["name"]) + 2
    again = result_of(model, sequences(9), "", best["steps"])
    assert again.search["candidates"][0]["snr_db"] == best["snr_db"]


def test_only_what_was_smoothed_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = list[Any]()
    measure = sensitivity.measure

    def recorded(*arguments: Any, only: Any = None, **others: Any) -> Any:
        rows = measure(*arguments, only=only, **others)
        measured.append((only, {row.tensor for row in rows}))
        return rows

    monkeypatch.setattr(sensitivity, "measure", recorded)
    result = result_of(attention(is_post_norm=True), sequences(9), "snr>=45")
    (first, all_tensors), (changed, again) = measured[:2]
    assert first is None and "n" in all_tensors
    assert f"n{SMOOTHED}" in changed and again == changed < all_tensors | again
    known = {row["tensor"] for row in result.search["sensitivity"]}
    assert f"n{SMOOTHED}" in known and "n" not in known and {"wq", "wo", "s"} & all_tensors <= known


def test_steps_that_smooth_what_needs_it_not_are_refused() -> None:
    with pytest.raises(StageFailed, match="smoothing"):
        result_of(network(), pictures(6), "", [{"kind": "range", "method": "minmax"}, {"kind": "smoothing"}])


# --- splitting ------------------------------------------------------------------------------------------


def wide_chain(wide: float = 12.0) -> Any:
    """Two convolutions; a channel between them is wide, and so are the weights that read it."""
    channels = 16
    first, second = random_weights(channels, 3, 3, 3), random_weights(4, channels, 1, 1, seed=1)
    first[2] *= wide
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "w2"], ["y"], "conv2"),
    ]
    weights = {"w1": first, "b1": random_weights(channels, seed=2), "w2": second}
    model = model_of(nodes, {"x": [1, 3, 12, 12]}, {"y": [1, 4, 12, 12]}, weights)
    return onnx.shape_inference.infer_shapes(model)


def test_a_wide_channel_is_split_into_equal_parts_and_the_network_computes_the_same() -> None:
    model = wide_chain()
    done = split_channels(model, rows_for(pictures(3)))
    before, after = constants(model), constants(done.model)
    assert done.tensors == {"a", "b"} and not done.is_same_shape
    assert after["w1"].shape[0] == after["w2"].shape[1] == 17, "one of sixteen more"
    np.testing.assert_allclose(after["w1"][2], before["w1"][2] / 2)
    np.testing.assert_array_equal(after["w2"][:, 2], after["w2"][:, 3])
    onnx.checker.check_model(done.model, full_check=True)
    expected, actual = (outputs(one, pictures(1)[0])["y"] for one in (model, done.model))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_even_channels_are_not_split() -> None:
    assert not split_channels(wide_chain(1.0), rows_for(pictures(3))).tensors


def test_a_split_model_is_quantized_better_and_is_a_little_larger() -> None:
    model = wide_chain()
    done = split_channels(model, rows_for(pictures(3))).model
    options = HostQuantization(goal="none")
    made = []
    for one in (model, done):
        chosen = plan(one, options)
        limits = rows_for(pictures(3))(one, dict.fromkeys(chosen.tensors, 1))
        ranges = {name: (float(rows.min()), float(rows.max())) for name, rows in limits.items()}
        made.append(Template(one, chosen, ranges, options).build(Precision(ranges)))
    plain, split = (snr_db(model, one, pictures(1)[0].arrays) for one in made)
    assert split > plain + 2
    assert made[0].ByteSize() < made[1].ByteSize() < 1.2 * made[0].ByteSize()


def test_the_predicted_noise_falls_as_the_measured_one() -> None:
    rows, weights = random_weights(200, 8), random_weights(8, 5, seed=1)
    rows[:, 0] *= 20
    copies = np.array([4, 1, 1, 1, 1, 1, 1, 1], np.float32)
    assert noise(rows, weights, copies=copies) < noise(rows, weights) / 3
    assert noise(rows, weights, copies=np.ones(8, np.float32)) == noise(rows, weights)


# --- the boundary ---------------------------------------------------------------------------------------


def test_boundaries_go_from_the_outputs_of_the_last_layers_to_the_layers_before_them() -> None:
    model = network()
    options = HostQuantization(goal="none")
    chosen = plan(model, options)
    template = Template(model, chosen, dict.fromkeys(chosen.tensors, (-3.0, 3.0)), options)
    names = [sorted(tensors) for tensors in boundaries(template, 1.0)]
    assert names[:3] == [["y"], ["w3", "y"], ["d", "w3", "y"]]
    assert len(names[3]) > 3 and "w2" in names[3]
    assert [sorted(tensors) for tensors in boundaries(template, 0.3)] == [["y"], ["w3", "y"]], "as many as are allowed"


def test_a_boundary_is_a_step_and_its_tensors_are_in_float() -> None:
    model = network()
    choice = Choice("minmax", tail=frozenset({"y", "w3"}))
    assert (choice.tensors_16, choice.name) == (2, "int8 minmax, 2 tensors of the last layers in float")
    steps = [QuantizationStep.model_validate(step) for step in choice.steps()]
    assert choice_of(steps, ["x", "b", "d", "y"], ["w1", "w2", "w3"]) == choice
    made = result_of(model, pictures(6), "", choice.steps()).model
    last = next(node for node in made.graph.node if node.name == "conv3")
    assert last.input[1] == "w3" or _maker(made, last.input[1]).op_type == "Identity"
    assert all(node.op_type != "QuantizeLinear" or "y" not in node.input[0] for node in made.graph.node)


def _maker(model: Any, tensor: str) -> Any:
    return next(node for node in model.graph.node if tensor in node.output)


def test_a_gemm_whose_output_alone_is_in_float_keeps_its_bias() -> None:
    """onnxruntime multiplies such a layer in integers, and takes the bias to have the scale of their products."""
    weights = {"w": random_weights(5, 8, seed=1), "b": random_weights(5, seed=2)}
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "gemm", transB=1)]
    model = onnx.shape_inference.infer_shapes(model_of(nodes, {"x": [1, 8]}, {"y": [1, 5]}, weights))
    options = HostQuantization(goal="none")
    chosen = plan(model, options)
    ranges = dict.fromkeys(chosen.tensors, (-3.0, 3.0))
    made = Template(model, chosen, ranges, options).build(Precision(ranges, exact=frozenset({"y"})))
    sample = Picture("p", {"x": np.linspace(-2, 2, 8, dtype=np.float32)[None]})
    expected, actual = (outputs(one, sample)["y"] for one in (model, made))
    np.testing.assert_allclose(actual, expected, atol=0.05)


def two_outputs(wide: float = 300.0) -> Any:
    """One layer writes both; 8 bits for both are too few for the narrow one, and 16 are hardly enough."""
    model = network()
    graph = model.graph
    values = constants(model)["w3"].copy()
    values[0] *= wide
    next(tensor for tensor in graph.initializer if tensor.name == "w3").CopyFrom(numpy_helper.from_array(values, "w3"))
    graph.node.append(helper.make_node("Split", ["y"], ["first", "second"], "parts", axis=1))
    del graph.output[:]
    graph.output.extend(helper.make_tensor_value_info(name, 1, [1, 1, 12, 12]) for name in ("first", "second"))
    return onnx.shape_inference.infer_shapes(model)


def test_the_last_layers_stay_in_float_where_16_bits_do_not_hold_the_goal() -> None:
    result = result_of(two_outputs(), pictures(9), "snr>=32")
    candidates = result.search["candidates"]
    taken = candidates[result.search["taken"]]
    assert result.goal is not None and result.goal["is_reached"], candidates
    assert "boundary" in [step["kind"] for step in taken["steps"]], candidates
    alone = next(one for one in candidates if "1 tensor of the last layers in float" in one["name"])
    in_16_bits = [one for one in candidates if "int16" in one["name"] and "last layers" not in one["name"]]
    assert in_16_bits and alone["snr_db"] > max(one["snr_db"] for one in in_16_bits)
    assert {one["verdict_code"] for one in in_16_bits} == {"below_goal"}
