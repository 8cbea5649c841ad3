"""The search for a goal on small graphs: what it tries, takes and says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.conversion.goals import AS_GIVEN, BEST_OF_FEW, parse_goal
from app.conversion.options import HostQuantization
from app.conversion.toolchains.budget import SECONDS_LEAST, Budget
from app.conversion.toolchains.host.bie_report import effort_line, goal_line
from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.quantization_plan import plan
from app.conversion.toolchains.host.search import mixed_precision, tensor_search
from app.conversion.toolchains.host.search import search as search_module
from app.conversion.toolchains.host.search.acceptance import ALTERED_SLACK_DB
from app.conversion.toolchains.host.search.alterations import altered
from app.conversion.toolchains.host.search.basis import basis_of
from app.conversion.toolchains.host.search.candidates import ALIKE_DB, Choice, Trail, TriedCandidate
from app.conversion.toolchains.host.search.judge import Judge
from app.conversion.toolchains.host.search.result import SearchResult
from app.conversion.toolchains.host.search.score import Score
from app.conversion.toolchains.host.search.search import QuantizationSearch
from app.conversion.toolchains.host.search.split import split_of
from app.conversion.toolchains.host.search.template import Precision
from app.conversion.toolchains.host.search.unlikeness import looks_of
from app.conversion.toolchains.host.task_drop import DropMeter
from app.inference.runtimes.sessions import open_session, run
from app.kit.sandbox.errors import StageFailed

SIDE, CHANNELS, LEVELS = 12, 6, 16
USUAL = Choice("minmax")


@dataclass(frozen=True)
class Picture:
    name: str
    arrays: Mapping[str, Array]


def pictures(count: int, side: int = SIDE) -> list[Picture]:
    drawn = np.random.default_rng(3).normal(size=(count, 1, 3, side, side)).astype(np.float32)
    drawn = np.round(drawn * LEVELS) / LEVELS  # as few values as pictures have
    return [Picture(f"p{place}", {"x": array}) for place, array in enumerate(drawn)]


def network(*, outlier: float = 1.0, activation: str = "Relu", side: int = SIDE) -> Any:
    """Three layers; `outlier` widens one channel of the first one's output, which passes `activation`."""
    random = np.random.default_rng(7)
    first = random.normal(size=(CHANNELS, 3, 3, 3)).astype(np.float32) / 5
    first[0] *= outlier
    second = random.normal(size=(CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / 7
    second[:, 0] /= outlier
    third = random.normal(size=(2, CHANNELS, 1, 1)).astype(np.float32) / 3
    weights = [numpy_helper.from_array(values, name) for name, values in (("w1", first), ("w2", second), ("w3", third))]
    weights.append(numpy_helper.from_array(random.normal(size=CHANNELS).astype(np.float32) / 10, "b2"))
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node(activation, ["a"], ["b"], "relu1"),
        helper.make_node("Conv", ["b", "w2", "b2"], ["c"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"], "relu2"),
        helper.make_node("Conv", ["d", "w3"], ["y"], "conv3"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, side, side])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def searched(
    goal: str,
    *,
    outlier: float = 1.0,
    activation: str = "Relu",
    count: int = 9,
    budget_s: float | None = 120.0,
    side: int = SIDE,
    reporting: Sequence[int] = (),
    meter_of: Callable[[], DropMeter | None] = lambda: None,
    steps: Sequence[Mapping[str, Any]] = (),
) -> SearchResult:
    model = network(outlier=outlier, activation=activation, side=side)
    options = HostQuantization.model_validate({"goal": goal, "budget_s": budget_s, "steps": steps})
    return QuantizationSearch(
        model,
        plan(model, options),
        pictures(count, side),
        options,
        parse_goal(goal) if goal else AS_GIVEN if steps else BEST_OF_FEW,
        threads=1,
        meter_of=meter_of,
        step=lambda *_: None,
        reporting=reporting,
    ).run()


@pytest.mark.slow
def test_what_holds_the_goal_in_8_bits_gets_no_16() -> None:
    result = searched("snr>=20")
    assert result.goal["is_reached"] and result.judgement["is_met"]
    assert result.search["ended_by"] == "reached"
    taken = result.search["candidates"][result.search["taken"]]
    assert (taken["tensors_16"], taken["int8_share"], taken["verdict_code"]) == (0, 1.0, "taken")
    assert sum(one["is_taken"] for one in result.search["candidates"]) == 1


@pytest.mark.slow
def test_a_wide_channel_is_helped_by_as_few_tensors_in_16_bits_as_hold_the_goal() -> None:
    result = searched("snr>=30", outlier=40.0, activation="Softplus")
    assert result.goal["is_reached"], result.search["candidates"]
    candidates = result.search["candidates"]
    taken = candidates[result.search["taken"]]
    assert 0 < taken["tensors_16"] <= 4, "of four activations and three weights"
    assert result.search["sensitivity"][0]["tensor"] in ("a", "b"), "the widened ones"
    cheaper = [one for one in candidates if one["tensors_16"] < taken["tensors_16"]]
    assert all(one["verdict_code"] == ("below_goal" if one["snr_db"] < 30 else "near_goal") for one in cheaper)


@pytest.mark.slow
def test_a_wide_channel_before_a_relu_is_equalized_and_needs_no_16_bits() -> None:
    result = searched("snr>=30", outlier=40.0)
    taken = result.search["candidates"][result.search["taken"]]
    assert result.goal["is_reached"]
    assert taken["tensors_16"] == 0
    assert "equalization" in [step["kind"] for step in taken["steps"]]


@pytest.mark.slow
def test_what_holds_on_these_pictures_but_not_from_nearer_or_darker_is_not_taken() -> None:
    candidates = (result := searched("snr>=24", side=20)).search["candidates"]
    first, taken = candidates[0], candidates[result.search["taken"]]
    assert (first["verdict_code"], first["snr_db"] > 24 > first["altered_db"]) == ("below_goal_altered", True)
    assert result.goal["is_reached"] and taken["altered_db"] >= 24 - ALTERED_SLACK_DB
    assert result.judgement["altered_db"] == taken["altered_db"]
    exact = network(side=20)
    darker = [snr_db(exact, result.model, altered(one.arrays, "darker") or {}) for one in pictures(9, 20)]
    assert np.mean(darker) >= 24 - ALTERED_SLACK_DB


@pytest.mark.parametrize(
    ("values", "code"),
    [([19.0, 19.2], "below_goal"), ([20.1, 21.9], "near_goal"), ([9.0, 40.0, 41.0, 42.0], "below_floor")],
)
def test_why_a_candidate_does_not_reach_the_goal(values: list[float], code: str) -> None:
    """One with a mean above the goal is not called below it."""
    reaching = TriedCandidate(0, USUAL, Score({"y": [30.0]}), True, True, 3)
    missing = TriedCandidate(1, Choice("mse"), Score({"y": values}), False, False, 3)
    assert Trail([reaching, missing], goal_db=20.0).to_json()[1]["verdict_code"] == code
    assert Trail([missing], goal_db=20.0).to_json()[0]["verdict_code"] == "taken"


def snr_db(exact: Any, quantized: Any, arrays: Mapping[str, Array]) -> float:
    x, y = (run(open_session(m.SerializeToString(), 1), arrays)["y"] for m in (exact, quantized))
    return float(10 * np.log10(np.square(x).sum() / np.square(x - y).sum()))


@pytest.mark.slow
def test_where_8_bits_hold_the_goal_at_once_only_8_bits_are_tried_and_the_best_is_taken() -> None:
    candidates = searched("snr>=20").search["candidates"]
    assert len(candidates) > 4 and {one["tensors_16"] for one in candidates} == {0}
    taken = next(one for one in candidates if one["is_taken"])
    assert taken["snr_db"] >= candidates[0]["snr_db"] and taken["steps"][0]["method"] == "minmax"
    assert "equalization" not in {step["kind"] for one in candidates for step in one["steps"]}


def test_a_range_that_cuts_extremes_is_taken_only_where_it_gains_more_than_other_scenes_lose() -> None:
    score = Score({"y": [30.0]})
    plain = TriedCandidate(0, USUAL, score, True, True, 3)
    for gain, choice in ((1.4, Choice("mse")), (2.9, replace(USUAL, rewrites=("equalization",)))):
        other = TriedCandidate(1, choice, Score({"y": [30.0 + gain]}), True, True, 3)
        assert Trail([plain, other]).best is plain
        much = TriedCandidate(1, choice, Score({"y": [30.2 + gain]}), True, True, 3)
        assert Trail([plain, much]).best is much


def test_of_two_that_hold_the_goal_the_one_whose_lowest_picture_is_not_far_below_is_taken() -> None:
    uneven = TriedCandidate(0, USUAL, Score({"y": [10.5, 40.0, 41.0]}), True, True, 3)
    even = TriedCandidate(1, Choice("mse"), Score({"y": [23.5, 24.0, 24.5]}), True, True, 3)
    assert uneven.score.assured_db > even.score.assured_db
    assert Trail([uneven, even]).best is even


def test_a_lowest_picture_that_is_hardly_higher_outweighs_no_mean() -> None:
    slower = TriedCandidate(0, Choice("mse"), Score({"y": [16.4, 42.0, 43.0, 43.0]}), True, True, 3, latency_ms=0.7)
    lower = replace(slower, score=Score({"y": [17.1, 33.0, 33.0, 33.0]}), latency_ms=0.6)
    assert lower.order < slower.order, "its lowest picture counts"
    assert Trail([slower, lower]).best is slower
    dearer = replace(slower, choice=replace(slower.choice, wide=frozenset({"t"})))
    assert Trail([dearer, lower]).best is lower


def test_of_candidates_that_are_alike_the_one_that_keeps_the_task_is_taken() -> None:
    louder = TriedCandidate(0, USUAL, Score({"y": [30.6]}, drops=[6.0]), True, True, 3)
    right = TriedCandidate(1, Choice("mean"), Score({"y": [31.9]}, drops=[0.1]), True, True, 3)
    assert 0 < louder.rank_db - right.rank_db < ALIKE_DB
    assert Trail([louder, right]).best is right
    assert Trail([louder, replace(right, score=Score({"y": [31.9]}, drops=[5.9]))]).best is louder, "the same loss"
    assert Trail([louder, replace(right, score=Score({"y": [31.9]}))]).best is louder, "its loss is not known"
    far = replace(right, score=Score({"y": [30.0]}, drops=[0.0]))
    assert Trail([louder, far]).best is louder, "a good SNR is not given up for it"


def test_up_to_the_vendors_rule_the_mean_alone_counts() -> None:
    uneven = TriedCandidate(0, USUAL, Score({"y": [-13.0, 20.0, 22.0]}), True, True, 3)
    even = TriedCandidate(1, Choice("mean"), Score({"y": [-10.0, 14.0, 14.5]}), True, True, 3)
    assert Trail([even, uneven]).best is uneven


def test_below_the_vendors_rule_every_gain_in_8_bits_counts() -> None:
    plain = TriedCandidate(0, USUAL, Score({"y": [7.0]}), True, True, 3)
    better = TriedCandidate(1, Choice("mse", rewrites=("equalization",)), Score({"y": [10.0]}), True, True, 3)
    assert Trail([plain, better]).best is better


def test_candidates_that_run_the_same_operators_have_one_latency_the_lowest_measured() -> None:
    trail, score = Trail(), Score({"y": [30.0]})
    choices = [USUAL, replace(USUAL, is_rounded=True), Choice("mse"), replace(USUAL, wide=frozenset({"y"})), USUAL]
    for choice, latency_ms in zip(choices, (0.02, 0.05, 0.018, 0.04, None), strict=True):
        trail.add(TriedCandidate(0, choice, score, True, True, 3, latency_ms=latency_ms))
    assert [one.latency_ms for one in trail.candidates] == [0.018, 0.018, 0.018, 0.04, 0.018]


def test_what_is_as_good_as_8_bits_can_be_ends_the_search_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "ENOUGH_DB", 25.0)
    assert [one["name"] for one in searched("snr>=20").search["candidates"]] == ["int8 minmax"]


@pytest.mark.slow
def test_the_first_layer_that_misses_the_goal_is_told_with_its_pictures_and_channels() -> None:
    bad = searched("snr>=30", outlier=40.0, activation="Softplus").search["first_bad"]
    assert bad["tensor"] in ("a", "b") and bad["layer"] in ("conv1", "relu1"), "where one channel is widened"
    assert bad["snr_db"] < 30 <= bad["before_db"] and 0 < bad["count"] < bad["tensors"]
    assert len(set(bad["pictures"])) == 3 and set(bad["pictures"]) <= {one.name for one in pictures(9)}
    assert [number for number, _ in bad["channels"]] == [0], "the one that is widened"
    assert searched("snr>=20").search["first_bad"] is None, "8 bits hold it"


@pytest.mark.slow
@pytest.mark.parametrize(("goal", "outlier"), [("snr>=20", 1.0), ("snr>=30", 40.0), ("snr>=60", 40.0)])
def test_the_steps_of_a_candidate_make_it_again_without_a_search(goal: str, outlier: float) -> None:
    earlier = searched(goal, outlier=outlier)
    taken = earlier.search["candidates"][earlier.search["taken"]]
    again = searched("", outlier=outlier, steps=taken["steps"])
    assert again.model.SerializeToString() == earlier.model.SerializeToString()
    assert again.goal is None and again.search["ended_by"] == "given"
    assert [(one["name"], one["steps"]) for one in again.search["candidates"]] == [(taken["name"], taken["steps"])]
    assert again.judgement["mean_db"] == earlier.judgement["mean_db"]


@pytest.mark.slow
def test_a_search_goes_on_from_steps_that_do_not_hold_the_goal() -> None:
    first = searched("snr>=30", outlier=40.0, activation="Softplus").search
    steps = first["candidates"][first["taken"]]["steps"]
    names = [
        one["name"]
        for one in searched("snr>=30", outlier=40.0, activation="Softplus", steps=steps).search["candidates"]
    ]
    assert names == [first["candidates"][first["taken"]]["name"]], "what holds the goal ends it at once"
    more = searched("snr>=42", outlier=40.0, activation="Softplus", steps=steps)
    assert more.goal is not None and more.goal["is_reached"]
    assert more.search["candidates"][0]["steps"] == steps
    assert len({one["steps"][0]["method"] for one in more.search["candidates"]}) == 1, (
        "what is known is not tried again"
    )


def test_steps_of_another_model_are_refused_by_the_name_of_what_it_lacks() -> None:
    with pytest.raises(StageFailed, match="no_such"):
        searched("", steps=[{"kind": "range", "method": "mse"}, {"kind": "int16", "tensors": ["no_such"]}])


@pytest.mark.slow
def test_the_model_that_is_handed_out_computes_what_the_report_says() -> None:
    result = searched("snr>=30", outlier=40.0)
    snr = [snr_db(network(outlier=40.0), result.model, picture.arrays) for picture in pictures(9)]
    assert np.mean(snr) == pytest.approx(result.judgement["mean_db"], abs=3)
    assert np.mean(snr) >= 30


@pytest.mark.slow
def test_with_all_in_16_bits_a_model_is_nearly_exact() -> None:
    """The bias too: onnxruntime would give one in float a scale that no int32 holds."""
    taken = max(searched("snr>=89").search["candidates"], key=lambda one: one["tensors_16"])
    assert taken["tensors_16"] == 7
    assert taken["snr_db"] > 60


@pytest.mark.slow
def test_without_time_to_measure_tensors_alone_all_get_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_search, "SENSITIVITY_SHARE", 0.0)
    result = searched("snr>=60")
    assert result.search["sensitivity"] == []
    assert result.search["candidates"][-1]["tensors_16"] == 7 and result.goal["is_reached"]


@pytest.mark.slow
def test_a_goal_out_of_reach_takes_the_best_and_says_so() -> None:
    result = searched("snr>=89")
    assert not result.goal["is_reached"]
    assert result.goal["reason_code"] == "sixteen_bits"
    assert result.search["ended_by"] == "exhausted"
    best = max(one["snr_db"] for one in result.search["candidates"])
    assert result.search["candidates"][result.search["taken"]]["snr_db"] == best


def test_a_budget_that_is_over_at_once_still_gives_a_model() -> None:
    result = searched("snr>=89", budget_s=1e-6)
    assert result.search["ended_by"] == "budget"
    assert result.goal["reason_code"] == "budget"
    assert len(result.search["candidates"]) == 1
    assert run(open_session(result.model.SerializeToString(), 1), pictures(1)[0].arrays)["y"].shape == (1, 2, 12, 12)


@pytest.mark.slow
def test_the_same_search_takes_the_same_candidate() -> None:
    one, other = searched("snr>=30", outlier=40.0), searched("snr>=30", outlier=40.0)
    assert one.model.SerializeToString() == other.model.SerializeToString()
    assert [c["name"] for c in one.search["candidates"]] == [c["name"] for c in other.search["candidates"]]


@pytest.mark.slow
def test_from_thirty_pictures_on_the_result_is_reported_on_others() -> None:
    result = searched("snr>=20", count=32)
    judgement = result.judgement
    assert result.pictures == 22, "those that report have set no range"
    assert (judgement["choose"], judgement["report"], judgement["n"]) == (10, 10, 10)
    assert judgement["calibrate"] == 22
    assert judgement["low_db"] <= judgement["mean_db"] <= judgement["high_db"]
    split = split_of(looks_of(pictures(32)))
    reporting = [one for one, part in zip(pictures(32), split.part_of, strict=True) if part == split.report]
    own = [snr_db(network(), result.model, one.arrays) for one in reporting]
    assert (np.mean(own), np.min(own)) == pytest.approx((judgement["mean_db"], judgement["min_db"]), abs=0.01)


@pytest.mark.slow
def test_a_task_that_is_not_known_is_said_to_be_why_a_drop_cannot_be_judged() -> None:
    result = searched("drop<=1%")
    assert not result.goal["is_reached"]
    assert result.goal["reason_code"] == "no_task"


class Errors:
    """Half of the largest error's share of the largest value, of the pictures with an even number alone."""

    def __init__(self) -> None:
        self.shares: list[float] = []

    def add(self, sample: str, expected: Mapping[str, Array], actual: Mapping[str, Array]) -> None:
        if int(sample.removeprefix("p")) % 2 == 0:
            self.shares.append(float(abs(expected["y"] - actual["y"]).max() / abs(expected["y"]).max()))

    def drop_percent(self) -> float | None:
        return 50.0 * max(self.shares) if self.shares else None


@pytest.mark.slow
def test_a_drop_is_counted_by_what_is_known_of_each_picture() -> None:
    result = searched("drop<=1%", outlier=40.0, activation="Softplus", count=30, meter_of=Errors)
    candidates = result.search["candidates"]
    assert result.goal["is_reached"] and candidates[0]["drop_percent"] > 1
    assert candidates[result.search["taken"]]["drop_percent"] <= 1


@pytest.mark.slow
def test_a_missed_goal_of_the_task_names_its_first_bad_layer_by_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    result = searched("drop<=0.001%", outlier=40.0, activation="Softplus", count=30, meter_of=Errors)
    bad, candidates = result.search["first_bad"], result.search["candidates"]
    assert not result.goal["is_reached"] and bad["before_drop"] <= 0.001 < bad["drop"]
    lost = candidates[result.search["taken"]]["drop_percent"]
    assert goal_line(result).endswith(f"; {lost} % of the task lost on those that chose")
    assert f", task loss {candidates[0]['drop_percent']:.2f} %" in capsys.readouterr().out
    least = min(one["drop_percent"] for one in candidates if one["pictures"] == candidates[0]["pictures"])
    assert candidates[result.search["taken"]]["drop_percent"] == least, "not the one with the highest SNR"


@pytest.mark.slow
def test_a_goal_of_the_task_is_missed_if_the_pictures_that_report_miss_it() -> None:
    class OnlyTheLast(Errors):
        def add(self, sample: str, expected: Mapping[str, Array], actual: Mapping[str, Array]) -> None:
            self.shares.append(float(sample in ("p27", "p28", "p29")))

    result = searched("drop<=1%", count=30, meter_of=OnlyTheLast, reporting=(27, 28, 29))
    assert not result.goal["is_reached"] and result.goal["reason_code"] in ("unseen_pictures", "sixteen_bits")


class Strict(Errors):
    """Pictures that report are lost until their error is an eighth of what the goal allows the others."""

    def add(self, sample: str, expected: Mapping[str, Array], actual: Mapping[str, Array]) -> None:
        share = float(abs(expected["y"] - actual["y"]).max() / abs(expected["y"]).max())
        self.shares.append(float(share > 0.01) if sample in ("p26", "p28") else share)


def refused_by_others() -> SearchResult:
    return searched("drop<=4%", meter_of=Strict, outlier=40.0, activation="Softplus", count=30, reporting=(26, 28))


@pytest.mark.slow
def test_a_goal_of_the_task_is_searched_for_until_pictures_that_did_not_choose_reach_it() -> None:
    result = refused_by_others()
    codes = [one["verdict_code"] for one in result.search["candidates"]]
    assert result.goal["is_reached"] and codes.count("below_goal_unseen") == result.judgement["refused"] > 0


@pytest.mark.slow
def test_a_candidate_that_pictures_that_did_not_choose_confirm_is_cheaper_than_those_that_have_been_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fewest = mixed_precision.fewest

    def all_first(
        expected: Sequence[float], base_db: float, needed_db: float, attempt: mixed_precision.Attempt, known: Any
    ) -> Any:
        attempt(len(expected) - 1)
        return fewest(expected, base_db, needed_db, attempt, known)

    usual = refused_by_others().search
    monkeypatch.setattr(mixed_precision, "fewest", all_first)
    other = refused_by_others().search
    taken = [search["candidates"][search["taken"]]["tensors_16"] for search in (usual, other)]
    assert taken[0] == taken[1]


def test_without_a_candidate_that_holds_the_goal_of_the_task_the_one_that_loses_least_is_taken() -> None:
    tried = [TriedCandidate(n, USUAL, Score({"y": [30.0 - n]}, drops=[5.0 - n]), False, False, 3) for n in range(2)]
    assert Trail(tried, is_by_task=True).best is tried[1] and Trail(tried).best is tried[0]


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["smallest", "fastest"])
def test_the_smallest_and_the_fastest_stay_in_8_bits(goal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judge, "is_slower_than_float", lambda self, model: False)
    result = searched(goal, outlier=40.0)
    assert result.goal["is_reached"]
    taken = result.search["candidates"][result.search["taken"]]
    assert (taken["tensors_16"], taken["int8_share"]) == (0, 1.0)


@pytest.mark.slow
def test_without_a_goal_a_few_in_8_bits_are_tried_that_treat_all_tensors_alike_and_the_best_is_taken() -> None:
    result = searched("", outlier=100.0)
    candidates = result.search["candidates"]
    taken = candidates[result.search["taken"]]
    assert taken["snr_db"] > 20 > candidates[0]["snr_db"] and "equalization" in [one["kind"] for one in taken["steps"]]
    assert {len(step["tensors"]) for one in candidates for step in one["steps"]} == {0}
    assert (result.goal, result.search["ended_by"], result.search["sensitivity"]) == (None, "exhausted", [])
    assert goal_line(result).startswith("taken: ")


def test_the_fastest_stays_in_float_where_int8_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judge, "is_slower_than_float", lambda self, model: True)
    result = searched("fastest")
    taken = result.search["candidates"][result.search["taken"]]
    assert (taken["name"], taken["int8_share"]) == ("float", 0.0)
    assert [one["kind"] for one in taken["steps"]] == ["float"]
    assert result.plan.nodes == () and "slower" in result.plan.problem
    assert result.model.SerializeToString() == network().SerializeToString()


@pytest.mark.slow
def test_without_a_budget_of_its_own_a_search_costs_a_multiple_of_its_first_candidate() -> None:
    own, usual = (searched("snr>=89", budget_s=seconds).goal for seconds in (600.0, None))
    assert (own["budget_s"], own["is_cpu_budget"]) == (600.0, False)
    assert SECONDS_LEAST <= usual["budget_s"] < 600 and usual["is_cpu_budget"]


def test_where_the_clock_ends_a_search_without_a_named_budget_the_report_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Budget, "elapsed_s", property(lambda self: 1e6))
    result = searched("snr>=89", budget_s=None)
    assert result.search["ended_by"] == result.goal["reason_code"] == "last_resort"
    assert effort_line(result).endswith("the machine was too busy to use its budget of CPU time up: the clock ended it")


def test_what_is_surely_worse_after_a_few_pictures_is_given_up_and_never_taken() -> None:
    """Ranges of an eighth: all pictures lose by them alike."""
    model, samples, options = network(side=20), pictures(50, 20), HostQuantization()
    split = split_of(looks_of(samples))
    judge = Judge(model, samples, split, threads=1, meter_of=lambda: None)
    known = basis_of(model, plan(model, options), samples, split, options, threads=1, step=lambda *_: None)

    def build(share: float) -> Any:
        ranges = {name: (low * share, high * share) for name, (low, high) in known.ranges(USUAL, (0,)).items()}
        return lambda part: known.template.build(Precision(ranges))

    best = judge.judge(build(1.0), (1,)).score
    worse = judge.judge(build(0.125), (1,), is_given_up=lambda score: score.mean_db < best.mean_db - 10).score
    assert (len(best.values), best.is_whole) == (15, True)
    assert (len(worse.values), worse.is_whole) == (4, False)
    trail = Trail([TriedCandidate(n, USUAL, score, True, True, 7) for n, score in enumerate((worse, best))])
    assert trail.best.score is best
    assert trail.to_json()[0]["pictures"] == 4


def test_out_of_reach_more_16_bits_have_to_be_worth_it() -> None:
    def tried(number: int, wide: int, mean_db: float) -> TriedCandidate:
        choice = replace(USUAL, wide=frozenset(map(str, range(wide))))
        return TriedCandidate(number, choice, Score({"y": [mean_db] * 3}), False, False, 459)

    few, many, most = tried(0, 100, 17.4), tried(1, 167, 18.5), tried(2, 459, 19.1)
    assert Trail([few, many, most]).best is many
    assert Trail([few, many, most, tried(3, 0, 19.0)]).best.choice.tensors_16 == 0
