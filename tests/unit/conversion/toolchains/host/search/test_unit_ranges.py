"""Softmaxes inside a network: what their range is where some samples are attended to more than all that calibrate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.conversion.goals import BEST_OF_FEW, parse_goal
from app.conversion.options import HostQuantization, QuantizationStep
from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.quantization_plan import plan
from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.recipe import choice_of
from app.conversion.toolchains.host.search.result import SearchResult
from app.conversion.toolchains.host.search.search import QuantizationSearch

WIDTH = 32
PEAKS = [6.0 if place % 3 == 0 else 0.0 for place in range(60)]


@dataclass(frozen=True)
class Sample:
    name: str
    arrays: Mapping[str, Array]


def attention() -> Any:
    """Values weighted by a Softmax of the input: x (1, 32) → y (1, 8)."""
    values = 1 + np.random.default_rng(5).normal(size=(WIDTH, 8)).astype(np.float32) / 4
    weights = [numpy_helper.from_array(values, "v")]
    nodes = [
        helper.make_node("Softmax", ["x"], ["attention"], "softmax", axis=-1),
        helper.make_node("MatMul", ["attention", "v"], ["y"], "values"),
    ]
    given, made = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width])] for name, width in (("x", WIDTH), ("y", 8))
    )
    graph = helper.make_graph(nodes, "attention", given, made, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def samples(peaks: Sequence[float]) -> list[Sample]:
    """Noise with one score that is so much higher."""
    random = np.random.default_rng(2)
    arrays = random.normal(size=(len(peaks), 1, WIDTH)).astype(np.float32) / 2
    for array, peak in zip(arrays, peaks, strict=True):
        array[0, random.integers(WIDTH)] += peak
    return [Sample(f"s{place}", {"x": array}) for place, array in enumerate(arrays)]


def searched(peaks: Sequence[float], goal: str = "none") -> SearchResult:
    model, options = attention(), HostQuantization.model_validate({"goal": goal})
    return QuantizationSearch(
        model,
        plan(model, options),
        samples(peaks),
        options,
        BEST_OF_FEW if goal == "none" else parse_goal(goal),
        threads=1,
        meter_of=lambda: None,
        step=lambda *_: None,
    ).run()


def taken_of(result: SearchResult) -> Any:
    return result.search["candidates"][result.search["taken"]]


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["none", "snr>=20"])
def test_where_those_that_choose_are_attended_to_in_one_place_the_whole_range_is_kept(goal: str) -> None:
    """They are unlike the others, so that they choose and report, and set no range."""
    result = searched(PEAKS, goal)
    taken, plain = taken_of(result), result.search["candidates"][0]
    assert {"kind": "range", "method": "unit", "tensors": ["attention"]} in taken["steps"]
    assert "1 range from 0 to 1" in taken["name"]
    assert taken["snr_db"] > plain["snr_db"] + 6 and taken["snr_min_db"] > plain["snr_min_db"]


@pytest.mark.slow
def test_where_all_samples_are_alike_the_range_is_what_was_seen() -> None:
    """Most levels of the whole one would be left over."""
    result = searched([0.0] * 60)
    tried = [one for one in result.search["candidates"] if "unit" in {step["method"] for step in one["steps"]}]
    assert tried and taken_of(result)["steps"] != tried[0]["steps"]
    assert tried[0]["snr_db"] < result.search["candidates"][0]["snr_db"]


def test_the_whole_range_is_no_range_of_its_own_and_is_read_from_its_step() -> None:
    choice = Choice("minmax", methods=(("attention", "unit"), ("scores", "mse")), is_corrected=True)
    assert choice.unit_methods == (("attention", "unit"),) and choice.has_own_ranges
    assert choice.name == "int8 minmax, 1 range from 0 to 1, 1 ranges of their own, biases corrected"
    steps = [QuantizationStep.model_validate(step) for step in choice.steps()]
    assert {*choice_of(steps, ["attention", "scores"], ["v"]).methods} == {*choice.methods}
    assert not Choice("minmax", methods=(("attention", "unit"),)).has_own_ranges
