"""Ranges in 16 bits are four times as wide as what was seen, and as wide only where nothing else holds the goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from app.conversion.goals import AS_GIVEN, parse_goal
from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.quantization_plan import plan
from app.conversion.toolchains.host.search.candidates import Choice, TriedCandidate
from app.conversion.toolchains.host.search.result import SearchResult
from app.conversion.toolchains.host.search.search import QuantizationSearch
from app.conversion.toolchains.host.search.trials import Trials
from app.kit.sandbox.errors import StageFailed
from tests.harness.models import small
from tests.unit.conversion.toolchains.host.search.test_search import CHANNELS, LEVELS, SIDE, Picture

pytestmark = pytest.mark.slow  # nearly each of them converts a model

FAR = 1000.0
"""Between two layers all values lie so far from zero, beside about one by which they differ."""
WITHOUT = ", without headroom"


def pictures(count: int) -> list[Picture]:
    """All have the same extremes, so none exceeds the range of others."""
    drawn = np.random.default_rng(3).random((count, 1, 3, SIDE, SIDE), np.float32)
    drawn = np.round(drawn * LEVELS) / LEVELS
    drawn[..., 0, 0], drawn[..., -1, -1] = 1.0, 0.0
    return [Picture(f"p{place}", {"x": array}) for place, array in enumerate(drawn)]


def distant() -> Any:
    """Three layers, of which the second one takes away what the first one's bias adds."""
    random = np.random.default_rng(7)
    shapes = {"w1": (CHANNELS, 3, 1, 1), "w2": (CHANNELS, CHANNELS, 1, 1), "w3": (2, CHANNELS, 1, 1)}
    values = {name: random.random(shape, np.float32) / shape[1] for name, shape in shapes.items()}
    values |= {"b1": np.full(CHANNELS, FAR, np.float32), "b2": -FAR * values["w2"].sum(axis=(1, 2, 3))}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], "conv1"),
        helper.make_node("Conv", ["a", "w2", "b2"], ["c"], "conv2"),
        helper.make_node("Conv", ["c", "w3"], ["y"], "conv3"),
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in values.items()]
    ends = [small.value("x", (1, 3, SIDE, SIDE))], [small.value("y", (1, 2, SIDE, SIDE))]
    return onnx.shape_inference.infer_shapes(small.model(nodes, *ends, weights))


def searched(
    goal: str,
    *,
    steps: Sequence[Mapping[str, Any]] = (),
    samples: Sequence[Picture] = (),
    reporting: Sequence[int] = (),
) -> SearchResult:
    options = HostQuantization.model_validate({"goal": goal, "budget_s": 120.0, "steps": steps})
    model, parsed = distant(), parse_goal(goal) if goal else AS_GIVEN
    return QuantizationSearch(
        model,
        plan(model, options),
        samples or pictures(9),
        options,
        parsed,
        threads=1,
        meter_of=lambda: None,
        step=lambda *_: None,
        reporting=reporting,
    ).run()


def taken_of(result: SearchResult) -> dict[str, Any]:
    candidate: dict[str, Any] = result.search["candidates"][result.search["taken"]]
    return candidate


def test_where_16_bits_for_all_are_too_coarse_ranges_without_headroom_are_tried_and_their_steps_make_them_again() -> (
    None
):
    result = searched("snr>=40")
    taken, candidates = taken_of(result), result.search["candidates"]
    assert result.goal["is_reached"] and taken["name"].endswith("in int16" + WITHOUT)
    first = next(place for place, one in enumerate(candidates) if WITHOUT in one["name"])
    of_all = candidates[first]["tensors_16"]
    assert of_all == max(one["tensors_16"] for one in candidates[:first]) > taken["tensors_16"]
    assert not any(one["kind"] == "float" for row in candidates for one in row["steps"]), "tried before float"

    again = searched("", steps=taken["steps"])
    assert again.model.SerializeToString() == result.model.SerializeToString()
    assert taken_of(again)["name"] == taken["name"]
    wider = [{**step, "method": ""} if step["kind"] == "int16" else step for step in taken["steps"]]
    coarse = taken_of(searched("", steps=wider))
    assert coarse["name"] == taken["name"].removesuffix(WITHOUT)
    assert taken["snr_db"] - coarse["snr_db"] > 6, "a quarter of the step is 12 dB"


@pytest.mark.parametrize("goal", ["snr>=25", "snr>=60"])
def test_fewer_tensors_are_tried_without_headroom_only_where_it_may_hold_the_goal(goal: str) -> None:
    without = [one["tensors_16"] for one in searched(goal).search["candidates"] if one["name"].endswith(WITHOUT)]
    assert without == ([] if goal == "snr>=25" else [7]), "all of four activations and three weights, if any"


def test_where_16_bits_for_all_miss_the_goal_what_they_are_too_coarse_for_stays_in_float(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempt = Trials.attempt

    def refuse(trials: Trials, choice: Choice, expected_db: float | None = None) -> TriedCandidate:
        if choice.exact and not choice.wide:
            raise StageFailed("nothing is in float beside 8 bits")
        return attempt(trials, choice, expected_db)

    monkeypatch.setattr(Trials, "attempt", refuse)
    result = searched("snr>=60")
    taken, candidates = taken_of(result), result.search["candidates"]
    (of_all,) = (one for one in candidates if one["name"].endswith(WITHOUT))
    assert result.goal["is_reached"] and taken["snr_db"] > 60 > of_all["snr_db"]
    kinds = {step["kind"]: step["tensors"] for step in taken["steps"]}
    assert {"a", "w2"} == {*kinds["float"]} and len(kinds["int16"]) == 5, "what lies far from zero, and its reader"

    again = searched("", steps=taken["steps"])
    assert again.model.SerializeToString() == result.model.SerializeToString()
    assert taken_of(again)["name"] == taken["name"]


def test_where_only_pictures_that_report_miss_the_goal_ranges_keep_their_headroom() -> None:
    samples = pictures(12)
    loud = [Picture(f"loud{place}", {"x": 20 * one.arrays["x"]}) for place, one in enumerate(samples[:3])]
    result = searched("snr>=25", samples=[*samples, *loud], reporting=range(12, 15))
    assert result.judgement["refused"] > 1 and not result.judgement["is_met"]
    assert not any(WITHOUT in one["name"] for one in result.search["candidates"])
