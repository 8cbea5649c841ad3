"""What lifts a quantized model: channels between layers equalized, biases corrected, sensitivity of single tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.quantizer import plan
from app.conversion.toolchains.host.runtime import open_session, run
from app.conversion.toolchains.host.search import mixed_precision, sensitivity
from app.conversion.toolchains.host.search.basis import Basis, basis_of
from app.conversion.toolchains.host.search.bias_correction import corrections, measured_shifts
from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.equalization import equalized
from app.conversion.toolchains.host.search.split import split_of
from app.conversion.toolchains.host.search.unlikeness import looks_of
from tests.harness.models.host import model_of, random_weights
from tests.unit.conversion.toolchains.host.search.test_search import Picture, network, pictures

LIMITS = np.array([40.0, 1.0, 0.5, 2.0, 1.0, 0.0], np.float32)


def depthwise() -> Any:
    """Conv, LeakyRelu, MaxPool, a depthwise Conv, Relu, and two layers that read it."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("LeakyRelu", ["a"], ["b"], "leaky"),
        helper.make_node("MaxPool", ["b"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "w2", "b2"], ["c"], "conv2", pads=[1, 1, 1, 1], group=6),
        helper.make_node("Relu", ["c"], ["d"], "relu"),
        helper.make_node("Conv", ["d", "w3"], ["y"], "conv3"),
        helper.make_node("Conv", ["d", "w4"], ["z"], "conv4"),
    ]
    weights = {
        "w1": random_weights(6, 3, 3, 3),
        "b1": random_weights(6),
        "w2": random_weights(6, 1, 3, 3, seed=1),
        "b2": random_weights(6, seed=2),
        "w3": random_weights(2, 6, 1, 1, seed=3),
        "w4": random_weights(4, 6, 1, 1, seed=4),
    }
    return model_of(nodes, {"x": [1, 3, 12, 12]}, {"y": [1, 2, 6, 6], "z": [1, 4, 6, 6]}, weights)


def outputs(model: Any, picture: Any) -> dict[str, Array]:
    return run(open_session(model.SerializeToString(), 1), picture.arrays)


def constant(model: Any, name: str) -> Array:
    values: Array = numpy_helper.to_array(next(t for t in model.graph.initializer if t.name == name))
    return values


def test_an_equalized_network_computes_the_same_with_other_weights() -> None:
    model = depthwise()
    changed, count = equalized(model, lambda tensor: LIMITS)
    assert count == 2, "between conv1 and conv2 past the pooling, and from conv2 to both that read it"
    assert not np.allclose(constant(changed, "w1"), constant(model, "w1"))
    one, other = outputs(model, pictures(1)[0]), outputs(changed, pictures(1)[0])
    for name, expected in one.items():
        np.testing.assert_allclose(other[name], expected, rtol=1e-4, atol=1e-5)


def test_a_channel_is_scaled_by_all_of_its_range_where_a_depthwise_layer_reads_it() -> None:
    model = depthwise()
    changed, _ = equalized(model, lambda tensor: LIMITS if tensor == "p" else None)
    factors = constant(model, "b1") / constant(changed, "b1")
    scaled = LIMITS[:5] / factors[:5]
    assert np.allclose(scaled, scaled[0], rtol=1e-4), "all live channels have one range"
    assert factors[5] == pytest.approx(1.0), "the dead one is left alone"


@pytest.mark.parametrize("operator", ["Sigmoid", "HardSwish"])
def test_nothing_is_equalized_across_what_lets_no_factor_through(operator: str) -> None:
    model = network(activation=operator, outlier=40.0)
    between = {"b"}
    _, count = equalized(model, lambda tensor: LIMITS if tensor in between else None)
    assert count == 0


def test_a_tensor_that_is_an_output_too_is_not_equalized() -> None:
    model = network()
    model.graph.output.append(onnx.ValueInfoProto(name="b"))
    assert equalized(model, lambda tensor: LIMITS if tensor == "b" else None)[1] == 0


def basis() -> Basis:
    model, samples = network(), pictures(6)
    options = HostQuantization()
    split = split_of(looks_of(samples))
    return basis_of(model, plan(model, options), samples, split, options, threads=1, step=lambda *_: None)


def test_what_clipping_takes_from_the_mean_is_given_back() -> None:
    known = basis()
    parts = (0, 1, 2)
    ranges = {**known.ranges(Choice("minmax"), parts), "b": (0.0, 0.2)}
    shifts = measured_shifts(known.template, ranges, pictures(6), 1)
    assert [shift.bias.layer for shift in shifts] == ["conv2"]
    added = corrections(shifts, frozenset(), frozenset())["b2"]
    assert np.abs(added).max() > 0.01
    exact, clipped = (_mean_of_conv2(known.model, top) for top in (None, 0.2))
    np.testing.assert_allclose(added, exact - clipped, atol=0.01)
    in_16_bits = corrections(shifts, frozenset({"b"}), frozenset({"w2"}))["b2"]
    assert np.abs(in_16_bits).max() < 1e-6, "16 bits take nothing"


def _mean_of_conv2(model: Any, top: float | None) -> Array:
    """Of each channel; top: what the layer reads is cut there."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.append(onnx.ValueInfoProto(name="c"))
    if top is not None:
        copy.graph.initializer.append(numpy_helper.from_array(np.array(top, np.float32), "top"))
        copy.graph.node.insert(2, helper.make_node("Min", ["b", "top"], ["cut"], "cut"))
        copy.graph.node[3].input[0] = "cut"
    values: Array = np.mean([outputs(copy, picture)["c"] for picture in pictures(6)], axis=(0, 1, 3, 4))
    return values


def test_sensitivity_is_the_noise_of_one_tensor_alone_and_orders_what_gets_16_bits() -> None:
    known = basis()
    ranges = {"minmax": {**known.ranges(Choice("minmax"), (0, 1, 2)), "d": (-500.0, 500.0)}}
    rows = sensitivity.measure(known.template, ranges, pictures(2), ["y"], 20.0, threads=1, has_time=lambda: True)
    by_tensor = {row.tensor: row for row in rows}
    assert {"x", "b", "d", "w1", "w2", "w3"} <= by_tensor.keys()
    assert min(rows, key=lambda row: row.snr_db).tensor == "d"
    assert mixed_precision.ordered(rows, with_own_ranges=False)[0].tensor == "d"
    assert by_tensor["w1"].is_weight and by_tensor["w1"].snr_db > 25


def test_a_picture_that_is_nearly_silent_does_not_decide_alone() -> None:
    in_all = row("in all", [0.010, 0.010, 0.010], [0.010, 0.010, 0.010])
    in_silence = row("in silence", [0.001, 0.001, 0.500], [0.001, 0.001, 0.500])
    assert mixed_precision.ordered([in_silence, in_all], with_own_ranges=True)[0] is in_all


def test_tensors_are_ordered_by_what_they_cost_with_the_ranges_that_they_have() -> None:
    helped, other = row("helped", [0.001], [0.100]), row("other", [0.010], [0.010])
    assert mixed_precision.ordered([helped, other], with_own_ranges=True)[0] is other
    assert mixed_precision.ordered([helped, other], with_own_ranges=False)[0] is helped


def row(tensor: str, noise: list[float], usual_noise: list[float]) -> sensitivity.Sensitivity:
    """A tensor's noise to signal at one output, by picture."""
    own, usual = (np.array(values)[:, None] for values in (noise, usual_noise))
    return sensitivity.Sensitivity(tensor, "", False, "mse", own, usual)


def test_another_range_is_taken_where_it_is_better_on_each_picture() -> None:
    known = basis()
    usual = known.ranges(Choice("minmax"), (0, 1, 2))
    narrow, wide = {**usual, "d": (0.0, usual["d"][1] / 8)}, {**usual, "d": (0.0, usual["d"][1] * 8)}
    quiet, loud = (Picture(name, {"x": share * pictures(1)[0].arrays["x"]}) for name, share in (("q", 0.1), ("l", 1.0)))

    def method(first: dict[str, Range], second: dict[str, Range], samples: list[Picture]) -> str:
        ranges = {"first": first, "second": second}
        rows = sensitivity.measure(known.template, ranges, samples, ["y"], 60.0, threads=1, has_time=lambda: True)
        return next(one.method for one in rows if one.tensor == "d")

    assert method(usual, narrow, [quiet] * 8) == "second"
    assert method(usual, narrow, [quiet] * 8 + [loud]) == "first", "it clips what one of nine pictures needs"
    assert method(wide, usual, [quiet, loud]) == "second"


def test_the_fewest_that_hold_are_met_by_doubling_and_bisection() -> None:
    tried: list[int] = []

    def holds(count: int) -> bool:
        tried.append(count)
        return count >= 5

    assert mixed_precision.fewest(40, holds) == 5
    assert tried == [1, 2, 4, 8, 6, 5]
    assert mixed_precision.fewest(3, lambda count: False) is None
