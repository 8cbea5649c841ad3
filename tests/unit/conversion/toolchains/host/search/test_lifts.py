"""What lifts a quantized model: channels between layers equalized, biases corrected, sensitivity of single tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.quantization_plan import plan
from app.conversion.toolchains.host.search import mixed_precision, sensitivity
from app.conversion.toolchains.host.search.basis import Basis, basis_of
from app.conversion.toolchains.host.search.bias_correction import corrections, measure_shifts
from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.equalization import equalized
from app.conversion.toolchains.host.search.split import split_of
from app.conversion.toolchains.host.search.template import Precision, Template
from app.conversion.toolchains.host.search.unlikeness import looks_of
from app.inference.runtimes.sessions import open_session, run
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
    done = equalized(model, lambda tensor: LIMITS)
    changed = done.model
    assert set(done.tensors) == {"a", "b", "p", "c", "d"}, "past the pooling, and to both layers that read it"
    assert not np.allclose(constant(changed, "w1"), constant(model, "w1"))
    one, other = outputs(model, pictures(1)[0]), outputs(changed, pictures(1)[0])
    for name, expected in one.items():
        np.testing.assert_allclose(other[name], expected, rtol=1e-4, atol=1e-5)


def test_a_channel_is_scaled_by_all_of_its_range_where_a_depthwise_layer_reads_it() -> None:
    model = depthwise()
    changed = equalized(model, lambda tensor: LIMITS if tensor == "p" else None).model
    factors = constant(model, "b1") / constant(changed, "b1")
    scaled = LIMITS[:5] / factors[:5]
    assert np.allclose(scaled, scaled[0], rtol=1e-4), "all live channels have one range"
    assert factors[5] == pytest.approx(1.0), "the dead one is left alone"


@pytest.mark.parametrize("operator", ["Sigmoid", "HardSwish"])
def test_nothing_is_equalized_across_what_lets_no_factor_through(operator: str) -> None:
    model = network(activation=operator, outlier=40.0)
    between = {"b"}
    assert not equalized(model, lambda tensor: LIMITS if tensor in between else None).tensors


def test_a_tensor_that_is_an_output_too_is_not_equalized() -> None:
    model = network()
    model.graph.output.append(onnx.ValueInfoProto(name="b"))
    assert equalized(model, lambda tensor: LIMITS if tensor == "b" else None).tensors == frozenset()


@pytest.mark.parametrize("per_channel", [True, False])
def test_the_template_of_an_equalized_network_is_what_the_quantizer_makes_of_it(per_channel: bool) -> None:
    model = onnx.shape_inference.infer_shapes(depthwise())
    options = HostQuantization(goal="none", per_channel=per_channel)
    changed = equalized(model, lambda tensor: LIMITS).model
    chosen = plan(model, options)
    ranges = {tensor: (-3.0, 3.0) for tensor in chosen.tensors}
    made = Template(model, chosen, ranges, options).with_model(changed)
    expected = Template(changed, chosen, ranges, options)
    precision = Precision({activation.name: (-3.0, 3.0) for activation in expected.activations})
    own, other = (outputs(template.build(precision), pictures(1)[0]) for template in (made, expected))
    for name, values in other.items():
        np.testing.assert_array_equal(own[name], values)


def basis() -> Basis:
    model, samples = network(), pictures(6)
    options = HostQuantization()
    split = split_of(looks_of(samples))
    return basis_of(model, plan(model, options), samples, split, options, threads=1, step=lambda *_: None)


def test_what_clipping_takes_from_the_mean_is_given_back() -> None:
    known = basis()
    parts = (0, 1, 2)
    ranges = {**known.ranges(Choice("minmax"), parts), "b": (0.0, 0.2)}
    shifts = measure_shifts(known.template, ranges, pictures(6), 1)
    assert [shift.bias.layer for shift in shifts] == ["conv2"]
    added = corrections(shifts, frozenset())["b2"]
    assert np.abs(added).max() > 0.01
    exact, clipped = (_mean_of_conv2(known.model, top) for top in (None, 0.2))
    np.testing.assert_allclose(added, exact - clipped, atol=0.01)
    in_16_bits = corrections(shifts, frozenset({"b", "w2"}))["b2"]
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


def test_biases_are_corrected_where_a_layer_reads_the_tensor_that_another_layer_is_named_after() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["depthwise"], "depthwise", group=3),
        helper.make_node("Conv", ["depthwise", "w2", "b2"], ["y"], "pointwise"),
    ]
    weights = {
        "w1": random_weights(3, 1, 3, 3),
        "b1": random_weights(3),
        "w2": random_weights(2, 3, 1, 1, seed=1),
        "b2": random_weights(2, seed=2),
    }
    made = model_of(nodes, {"x": [1, 3, 12, 12]}, {"y": [1, 2, 10, 10]}, weights)
    model = onnx.shape_inference.infer_shapes(made)
    samples, options = pictures(6), HostQuantization()
    split = split_of(looks_of(samples))
    known = basis_of(model, plan(model, options), samples, split, options, threads=1, step=lambda *_: None)
    shifts = measure_shifts(known.template, known.ranges(Choice("minmax"), (0, 1, 2)), samples, 1)
    assert {shift.bias.layer for shift in shifts} == {"depthwise", "pointwise"}


def test_sensitivity_is_the_noise_of_one_tensor_alone_and_orders_what_gets_16_bits() -> None:
    known = basis()
    ranges = {"minmax": {**known.ranges(Choice("minmax"), (0, 1, 2)), "d": (-500.0, 500.0)}}
    rows = sensitivity.measure(known.template, ranges, pictures(2), ["y"], 20.0, threads=1, has_time=lambda: True)
    by_tensor = {row.tensor: row for row in rows}
    assert {"x", "b", "d", "w1", "w2", "w3"} <= by_tensor.keys()
    assert min(rows, key=lambda row: row.snr_db).tensor == "d"
    assert mixed_precision.order_greedily(rows, with_own_ranges=False)[0].tensor == "d"
    assert by_tensor["w1"].is_weight and by_tensor["w1"].snr_db > 25


def test_without_time_for_all_tensors_those_near_the_end_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    known, looks = basis(), iter([True, True])
    ranges = {"minmax": known.ranges(Choice("minmax"), (0, 1, 2))}

    def measured(has_time: Callable[[], bool]) -> list[str]:
        rows = sensitivity.measure(known.template, ranges, pictures(2), ["y"], 20.0, threads=1, has_time=has_time)
        return [row.tensor for row in rows]

    everything = measured(lambda: True)
    monkeypatch.setattr(sensitivity, "STRETCH", 1)
    assert sorted(measured(lambda: True)) == sorted(everything)
    some = measured(lambda: next(looks, False))
    assert "d" in some and not {"x", "w1", "b"} & {*some}


def test_a_weight_that_layers_share_costs_what_it_costs_in_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Conv", ["b", "w"], ["y"], "conv2", pads=[1, 1, 1, 1]),
    ]
    made = model_of(nodes, {"x": [1, 3, 12, 12]}, {"y": [1, 3, 12, 12]}, {"w": random_weights(3, 3, 3, 3)})
    model, options = onnx.shape_inference.infer_shapes(made), HostQuantization()
    chosen = plan(model, options)
    ranges = {tensor: (-30.0, 30.0) for tensor in chosen.tensors}
    template = Template(model, chosen, ranges, options)

    def cost() -> Array:
        rows = sensitivity.measure(
            template, {"minmax": ranges}, pictures(2), ["y"], 90.0, threads=1, has_time=lambda: True
        )
        [of_weight] = [row for row in rows if row.is_weight]
        return of_weight.noise

    at_once = cost()
    monkeypatch.setattr(sensitivity, "STRETCH", 1)
    np.testing.assert_allclose(cost(), at_once, rtol=1e-3)


def test_what_hardly_costs_anything_alone_is_not_measured_on_all_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    known, runs = basis(), list[str]()
    ranges = {"minmax": known.ranges(Choice("minmax"), (0, 1, 2))}

    def counted(session: Any, arrays: Any, names: Any) -> Any:
        runs.append("")
        return run(session, arrays, names)

    monkeypatch.setattr(sensitivity, "run", counted)

    def rows(goal_db: float) -> tuple[list[sensitivity.Sensitivity], int]:
        runs.clear()
        measured = sensitivity.measure(
            known.template, ranges, pictures(6), ["y"], goal_db, threads=1, has_time=lambda: True
        )
        return measured, len(runs)

    (few, few_runs), (all_rows, all_runs) = rows(5.0), rows(60.0)
    assert few_runs < all_runs / 2
    for quick, whole in zip(few, all_rows, strict=True):
        assert quick.noise.shape == whole.noise.shape == (6, 1)
        assert quick.snr_db == pytest.approx(whole.snr_db, abs=2.0)


def test_a_picture_that_is_nearly_silent_does_not_decide_alone() -> None:
    in_all = row("in all", [0.010, 0.010, 0.010], [0.010, 0.010, 0.010])
    in_silence = row("in silence", [0.001, 0.001, 0.500], [0.001, 0.001, 0.500])
    assert mixed_precision.order_greedily([in_silence, in_all], with_own_ranges=True)[0] is in_all


def test_tensors_are_ordered_by_what_they_cost_with_the_ranges_that_they_have() -> None:
    helped, other = row("helped", [0.001], [0.100]), row("other", [0.010], [0.010])
    assert mixed_precision.order_greedily([helped, other], with_own_ranges=True)[0] is other
    assert mixed_precision.order_greedily([helped, other], with_own_ranges=False)[0] is helped


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


def test_the_fewest_that_hold_are_met_in_a_few_tries_by_what_was_expected_of_them() -> None:
    expected = [float(count) for count in range(41)]
    tried: list[int] = []

    def attempt(count: int) -> tuple[bool, float]:
        """3 dB less than expected, and more than 20 dB are needed."""
        tried.append(count)
        return count > 22, expected[count] - 3

    assert mixed_precision.fewest(expected, 0.0, 20.0, attempt) in range(23, 26)
    assert tried[0] == 20 and len(tried) <= 4
    assert mixed_precision.fewest(expected, 0.0, 20.0, lambda count: (count >= 1, 0.0)) == 1
    assert mixed_precision.fewest(expected, 0.0, 20.0, lambda count: (count >= 40, 0.0)) == 40
    assert mixed_precision.fewest(expected[:4], 0.0, 20.0, lambda count: (False, 0.0)) is None


def test_numbers_that_were_tried_when_less_was_needed_bound_the_next_ones() -> None:
    expected, tried = [float(count) for count in range(41)], list[int]()

    def attempt(count: int) -> tuple[bool, float]:
        tried.append(count)
        return count >= 26, expected[count] - 3

    known = {count: (False, expected[count] - 3) for count in (9, 20)} | {36: (True, 33.0)}
    assert mixed_precision.fewest(expected, 0.0, 23.0, attempt, known) in range(26, 29)
    assert tried[0] == 26 and all(20 < count < 36 for count in tried)
    assert mixed_precision.fewest(expected, 0.0, 20.0, attempt, {19: (False, 16.0), 20: (True, 21.0)}) == 20
    uneven = {5: (True, 20.0), 9: (False, 19.0)}
    assert mixed_precision.fewest(expected, 0.0, 20.0, lambda count: (count >= 5, 20.0), uneven) == 5


def test_where_no_number_is_expected_to_suffice_twice_the_last_is_tried() -> None:
    tried: list[int] = []

    def attempt(count: int) -> tuple[bool, float]:
        tried.append(count)
        return count >= 130, 0.06 * count

    expected = [0.25 * count for count in range(301)]
    assert mixed_precision.fewest(expected, 0.0, 20.0, attempt) in range(130, 147)
    assert tried[:2] == [80, 160], "the first attempt reached a quarter of what was expected"


def test_noise_of_what_is_left_in_8_bits_adds_up() -> None:
    order = [row("first", [0.1, 0.1], [0.2, 0.2]), row("second", [0.01, 0.01], [0.01, 0.01])]
    assert mixed_precision.predict_db(order, with_own_ranges=True)[:2] == pytest.approx([9.59, 20.0], abs=0.01)
    assert mixed_precision.predict_db(order, with_own_ranges=False)[0] == pytest.approx(6.78, abs=0.01)


def test_no_number_of_exact_tensors_is_expected_to_remove_all_noise() -> None:
    order = [row("first", [0.1], [0.1]), row("second", [1e-9], [1e-9])]
    assert max(mixed_precision.predict_db(order, with_own_ranges=True)) == pytest.approx(50.0, abs=0.1)


def test_a_forecast_gains_beyond_what_was_measured_the_share_that_was_reached_before() -> None:
    """As in a search in which 57 dB were expected and 17.5 reached."""
    forecast = mixed_precision.Forecast([6.4, 15.1, 20.6, 26.1, 54.5], 6.4)
    assert forecast.snr_db(2) == pytest.approx(20.6), "only what each tensor costs alone is known"
    forecast.learn(2, 15.3)
    forecast.learn(3, 15.9)
    assert forecast.snr_db(4) == pytest.approx(15.9 + 0.6 / 5.5 * 28.4)
    assert forecast.snr_db(1) == pytest.approx(6.4 + 8.9 * 8.7 / 14.2), "between two measured ones"
    forecast.learn(3, 15.0)
    assert forecast.snr_db(4) == 15.0, "more bits have gained nothing"


def test_a_picture_that_is_measured_later_joins_those_before() -> None:
    rows = [row("one", [0.01], [0.1]), row("left out", [0.01], [0.01])]
    joined = sensitivity.join_sensitivities(rows, [row("one", [0.5, 0.5], [0.5, 0.5])])
    assert [one.tensor for one in joined] == ["one"]
    assert joined[0].noise.tolist() == [[0.01], [0.5], [0.5]]
    assert joined[0].usual_noise.tolist() == [[0.1], [0.5], [0.5]]


def test_where_no_snr_tells_what_suffices_the_number_is_doubled_and_then_bisected() -> None:
    tried = list[int]()

    def attempt(count: int) -> tuple[bool, float]:
        tried.append(count)
        return count >= 92, 30.0

    expected = [20.0 + count for count in range(166)]
    assert mixed_precision.fewest(expected, 20.0, math.inf, attempt, {20: (False, 30.0)}) in range(92, 104)
    assert tried[:4] == [40, 80, 160, 120] and len(tried) <= 7
