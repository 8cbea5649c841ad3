"""Weights rounded so that the layer's output errs least, not each weight."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from app.conversion.goals import parse_goal
from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.quantization_plan import plan
from app.conversion.toolchains.host.search.candidate_builder import CandidateBuilder
from app.conversion.toolchains.host.search.search import QuantizationSearch
from app.conversion.toolchains.host.search.template import Template
from app.conversion.toolchains.host.search.weight_integers import COLUMNS_MOST, DAMPING, second_order
from app.inference.runtimes.sessions import open_session, run
from app.kit.sandbox.errors import StageFailed
from tests.harness.models.host import model_of, random_weights
from tests.unit.conversion.toolchains.host.search.test_search import Picture

SIDE = 20


def smooth(count: int) -> list[Picture]:
    """Neighbours are alike, as in pictures, and channels too: that is what second order lives on."""
    drawn = np.random.default_rng(1).normal(size=(count, 1, 1, SIDE, SIDE)).astype(np.float32).cumsum(-1).cumsum(-2)
    tints = np.array([1.0, 0.9, 1.1, 0.8], np.float32).reshape(1, 4, 1, 1)
    noise = np.random.default_rng(2).normal(size=(count, 1, 4, SIDE, SIDE)).astype(np.float32)
    return [Picture(f"p{place}", {"x": drawn[place] * tints + noise[place]}) for place in range(count)]


def template(**attributes: Any) -> Template:
    """One convolution of `x`, with weights in 8 bits."""
    groups = attributes.get("group", 1)
    weights = {"w": random_weights(8, 4 // groups, 3, 3)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "conv", **attributes)]
    shape = [1, 8, *run_shape(nodes, weights)]
    model = model_of(nodes, {"x": [1, 4, SIDE, SIDE]}, {"y": shape}, weights)
    options = HostQuantization()
    return Template(model, plan(model, options), {"x": (-60.0, 60.0), "y": (-60.0, 60.0)}, options)


def run_shape(nodes: list[Any], weights: dict[str, Array]) -> tuple[int, ...]:
    model = model_of(nodes, {"x": [1, 4, SIDE, SIDE]}, {"y": [1, 8, "h", "w"]}, weights)
    return run(open_session(model.SerializeToString(), 1), smooth(1)[0].arrays)["y"].shape[2:]


def noise(made: Template, rounded: Template, pictures: list[Picture]) -> float:
    """Of the output, with the weights as these integers have them and all else exact."""
    (weight,) = made.weights
    (node,) = made.float_model.graph.node
    total = 0.0
    for picture in pictures:
        exact, other = (
            run(open_session(of_weights(made, node, values).SerializeToString(), 1), picture.arrays)["y"]
            for values in (made.float_value("w"), rounded.dequantized(weight))
        )
        total += float(np.square(exact - other).sum())
    return total


def of_weights(made: Template, node: Any, values: Array) -> Any:
    shape = [d.dim_value for d in made.float_model.graph.output[0].type.tensor_type.shape.dim]
    return model_of([node], {"x": [1, 4, SIDE, SIDE]}, {"y": shape}, {"w": values.astype(np.float32)})


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 1, 1, 1]},
        {"group": 2, "pads": [1, 0, 2, 1]},
        {"group": 4, "strides": [2, 2]},
        {"strides": [2, 1], "dilations": [2, 1], "pads": [2, 2, 2, 2]},
    ],
)
def test_the_output_errs_less_than_rounded_to_nearest_also_on_other_pictures(attributes: dict[str, Any]) -> None:
    made, pictures = template(**attributes), smooth(12)
    rounded = made.with_weights(second_order(made, pictures[:6], 1))
    for seen in (pictures[:6], pictures[6:]):
        assert noise(made, rounded, seen) < 0.5 * noise(made, made, seen)
    (weight,) = made.weights
    steps = (rounded.dequantized(weight) - made.dequantized(weight)) / made.weight_scale(weight).reshape(-1, 1, 1, 1)
    assert np.abs(steps).max() < 20, "the scales stay"


def test_inputs_that_never_vary_are_rounded_to_nearest() -> None:
    made = template()
    silent = [Picture("p", {"x": np.zeros((1, 4, SIDE, SIDE), np.float32)})]
    rounded = made.with_weights(second_order(made, silent, 1))
    (weight,) = made.weights
    np.testing.assert_array_equal(rounded.dequantized(weight), made.dequantized(weight))


def test_layers_of_too_many_weights_or_with_padding_by_name_are_left_as_they_are() -> None:
    assert second_order(template(auto_pad="SAME_UPPER"), smooth(1), 1) == {}
    channels = COLUMNS_MOST // 9 + 1
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "conv")]
    shapes = {"x": [1, channels, 5, 5]}, {"y": [1, 2, 3, 3]}
    model = model_of(nodes, *shapes, {"w": random_weights(2, channels, 3, 3)})
    options = HostQuantization()
    wide = Template(model, plan(model, options), {"x": (-4.0, 4.0), "y": (-4.0, 4.0)}, options)
    assert second_order(wide, [Picture("p", {"x": random_weights(1, channels, 5, 5)})], 1) == {}


def test_a_template_with_other_weights_leaves_the_first_as_it_was() -> None:
    made = template()
    before = made.model.SerializeToString()
    changed = made.with_weights({"w": np.zeros((8, 4, 3, 3), np.int8)})
    assert made.model.SerializeToString() == before
    assert not changed.dequantized(changed.weights[0]).any()


# --- matrix products ------------------------------------------------------------------------------------
INPUTS, OUTPUTS = 6, 4


def rows_of(seed: int, count: int = 40) -> Array:
    """Inputs of a matrix product, [tokens, channels], whose channels are alike."""
    drawn = np.random.default_rng(seed)
    rows: Array = drawn.normal(size=(count, 1)) + 0.1 * drawn.normal(size=(count, INPUTS))
    return rows.astype(np.float32)


def product(operator: str, *, per_channel: bool = True, **attributes: Any) -> Template:
    """One Gemm or MatMul of `x`."""
    is_turned = bool(attributes.get("transB", 0))
    weights = {"w": random_weights(*((OUTPUTS, INPUTS) if is_turned else (INPUTS, OUTPUTS)), seed=4)}
    nodes = [helper.make_node(operator, ["x", "w"], ["y"], "product", **attributes)]
    model = model_of(nodes, {"x": ["n", INPUTS]}, {"y": ["n", OUTPUTS]}, weights)
    options = HostQuantization(per_channel=per_channel)
    return Template(model, plan(model, options), {"x": (-4.0, 4.0), "y": (-9.0, 9.0)}, options)


def turned(weight: Array) -> Array:
    """Returns a weight as [outputs, inputs]."""
    return weight if weight.shape == (OUTPUTS, INPUTS) else weight.T


def by_elimination(weights: Array, scales: Array, rows: Array) -> Array:
    """GPTQ as Optimal Brain Surgeon has it: round one input after the other, solve for the best values of the rest.

    Args:
        weights: [outputs, inputs].
        scales: of each output.
        rows: [positions, inputs].
    """
    products = rows.T.astype(np.float64) @ rows.astype(np.float64)
    products += np.eye(INPUTS) * DAMPING * np.diag(products).mean()
    integers = np.zeros(weights.shape)
    for output, scale in enumerate(scales):
        left = weights[output].astype(np.float64)
        for place in range(INPUTS):
            rounded = np.clip(np.rint(left[place] / scale), -127, 127)
            integers[output, place], error = rounded, left[place] - rounded * scale
            rest = slice(place + 1, None)
            left[rest] += np.linalg.solve(products[rest, rest], products[rest, place] * error)
    return integers


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [("MatMul", {}), ("Gemm", {}), ("Gemm", {"transB": 1}), ("MatMul", {"per_channel": False})],
)
def test_matrix_products_are_rounded_as_the_method_is_written_down(operator: str, attributes: dict[str, Any]) -> None:
    made, rows = product(operator, **attributes), rows_of(6)
    integers = turned(second_order(made, [Picture("p", {"x": rows})], 1)["w"])
    weights = turned(made.float_value("w"))
    scales = np.broadcast_to(made.weight_scale(made.weights[0]).reshape(-1), OUTPUTS).astype(np.float64)
    np.testing.assert_array_equal(integers, by_elimination(weights, scales, rows))
    assert (integers != np.rint(weights / scales[:, None])).any()


def test_the_output_of_a_matrix_product_errs_between_the_best_integers_and_the_nearest() -> None:
    """The best: all integers by one from the nearest are tried."""
    made, rows = product("MatMul"), rows_of(6).astype(np.float64)
    integers = second_order(made, [Picture("p", {"x": rows.astype(np.float32)})], 1)["w"].T
    weights, scales = made.float_value("w").T.astype(np.float64), made.weight_scale(made.weights[0])
    errors = np.zeros(3)
    for own, exact, scale in zip(integers, weights, scales, strict=True):
        nearest = np.rint(exact / scale)
        every = nearest + np.array(list(itertools.product((-1, 0, 1), repeat=INPUTS)))
        one, other, *others = np.square((np.vstack([own, nearest, every]) * scale - exact) @ rows.T).sum(axis=1)
        assert min(others) <= one * (1 + 1e-9) and one <= other
        errors += min(others), one, other
    assert errors[0] <= errors[1] < 0.8 * errors[2]


def test_products_of_turned_inputs_or_too_many_weights_are_left_as_they_are() -> None:
    turned_rows = rows_of(6, INPUTS)
    assert second_order(product("Gemm", transA=1), [Picture("p", {"x": turned_rows})], 1) == {}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    wide = COLUMNS_MOST + 1
    model = model_of(nodes, {"x": [1, wide]}, {"y": [1, 2]}, {"w": random_weights(wide, 2)})
    options = HostQuantization()
    made = Template(model, plan(model, options), {"x": (-4.0, 4.0), "y": (-9.0, 9.0)}, options)
    assert second_order(made, [Picture("p", {"x": random_weights(1, wide)})], 1) == {}


# --- when it is tried -----------------------------------------------------------------------------------
def two_layers(*, are_integers: bool) -> Any:
    """Two convolutions, with weights that 8 bits represent exactly or not; the two large ones nearly cancel."""
    drawn = np.random.default_rng(3)
    weights = {}
    for name, shape in (("w1", (8, 4, 3, 3)), ("w2", (2, 8, 1, 1))):
        values = drawn.integers(-5, 6, shape) + (0.0 if are_integers else drawn.uniform(-0.4, 0.4, shape))
        values.reshape(shape[0], -1)[:, :2] = 127, -127
        weights[name] = (values / 1024).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "conv1"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "w2"], ["y"], "conv2"),
    ]
    shape = {"y": [1, 2, SIDE - 2, SIDE - 2]}
    return onnx.shape_inference.infer_shapes(model_of(nodes, {"x": [1, 4, SIDE, SIDE]}, shape, weights))


@pytest.mark.slow
@pytest.mark.parametrize(("are_integers", "is_tried"), [(False, True), (True, False)])
@pytest.mark.parametrize("goal", ["smallest", "snr>=90"])
def test_weights_are_rounded_by_second_order_only_where_their_rounding_costs(
    goal: str, are_integers: bool, is_tried: bool
) -> None:
    kinds = {step["kind"] for one in candidates(two_layers(are_integers=are_integers), goal) for step in one["steps"]}
    assert ("weight_rounding" in kinds) == is_tried


@pytest.mark.slow
@pytest.mark.parametrize(("are_integers", "is_rounded"), [(False, True), (True, False)])
def test_what_gets_more_bits_has_its_weights_rounded_where_activations_in_8_bits_hid_the_gain(
    monkeypatch: pytest.MonkeyPatch, are_integers: bool, is_rounded: bool
) -> None:
    monkeypatch.setattr(QuantizationSearch, "_try_rounding", lambda self: iter(()))
    tried = [
        {step["kind"] for step in one["steps"]} for one in candidates(two_layers(are_integers=are_integers), "snr>=60")
    ]
    wide = [kinds for kinds in tried if "int16" in kinds]
    assert wide and all(("weight_rounding" in kinds) == is_rounded for kinds in wide)


@pytest.mark.slow
def test_what_cannot_be_run_with_weights_alone_in_8_bits_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    built = CandidateBuilder.built

    def refusing(self: CandidateBuilder, choice: Any, parts: Any, exact: frozenset[str] = frozenset()) -> Any:
        if exact:
            raise StageFailed("onnxruntime cannot run the model")
        return built(self, choice, parts, exact)

    monkeypatch.setattr(CandidateBuilder, "built", refusing)
    steps = [step for one in candidates(two_layers(are_integers=True), "smallest") for step in one["steps"]]
    assert "weight_rounding" in {step["kind"] for step in steps}


def candidates(model: Any, goal: str) -> list[dict[str, Any]]:
    """Returns what a search tries."""
    options = HostQuantization.model_validate({"goal": goal})
    result = QuantizationSearch(
        model,
        plan(model, options),
        smooth(8),
        options,
        parse_goal(goal),
        threads=1,
        meter_of=lambda: None,
        step=lambda *_: None,
    ).run()
    tried: list[dict[str, Any]] = result.search["candidates"]
    return tried
