"""Weights rounded so that the layer's output errs least, not each weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.quantizer import plan
from app.conversion.toolchains.host.search.template import Template
from app.conversion.toolchains.host.search.weight_integers import COLUMNS_MOST, second_order
from app.inference.runtimes.sessions import open_session, run
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
