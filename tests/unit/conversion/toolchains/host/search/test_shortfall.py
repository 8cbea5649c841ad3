"""What is said of a goal that is missed: measured on the pictures that miss it; and that a search goes on where
pictures that did not choose miss it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.conversion.goals import parse_goal
from app.conversion.options import HostQuantization
from app.conversion.toolchains.budget import Budget
from app.conversion.toolchains.host.bie_report import quality_warnings
from app.conversion.toolchains.host.quantization_plan import plan
from app.conversion.toolchains.host.search.basis import basis_of
from app.conversion.toolchains.host.search.candidate_builder import CandidateBuilder
from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.first_bad import MissedGoal
from app.conversion.toolchains.host.search.judge import Judge
from app.conversion.toolchains.host.search.result import SearchResult
from app.conversion.toolchains.host.search.search import QuantizationSearch
from app.conversion.toolchains.host.search.shortfall import Shortfall, shortfall
from app.conversion.toolchains.host.search.split import Split, split_of
from app.conversion.toolchains.host.search.trials import Trials
from app.conversion.toolchains.host.search.unlikeness import looks_of
from app.conversion.toolchains.host.task_drop import DropMeter
from app.conversion.toolchains.journal import Journal
from app.kit.sandbox.errors import StageFailed
from tests.unit.conversion.toolchains.host.search.test_search import Picture, network, pictures

pytestmark = pytest.mark.slow  # nearly each of them converts a model

BRIGHT = 3.0


def measured(
    choice: Choice,
    samples: Sequence[Picture],
    goal_db: float,
    reporting: Sequence[int],
    has_time: Callable[[], bool] = lambda: True,
) -> Shortfall:
    result = shortfall(MissedGoal(*parts(samples, reporting), choice, goal_db, has_time))
    assert result is not None
    return result


def parts(samples: Sequence[Picture], reporting: Sequence[int]) -> tuple[CandidateBuilder, Judge, Split]:
    model, options = network(outlier=60.0), HostQuantization()
    split = split_of(looks_of(samples), reporting)
    basis = basis_of(model, plan(model, options), samples, split, options, threads=1, step=lambda *_: None)
    judge = Judge(model, samples, split, threads=1, meter_of=lambda: None)
    return CandidateBuilder(basis, split, judge.examples, options, 1), judge, split


def scaled(samples: Sequence[Picture], places: Sequence[int], factor: float) -> list[Picture]:
    return [
        replace(one, arrays={"x": one.arrays["x"] * factor}) if place in places else one
        for place, one in enumerate(samples)
    ]


def test_the_layer_whose_channel_is_wide_is_named_with_its_gain_and_16_bits_are_said_to_be_enough() -> None:
    known = measured(Choice("minmax"), pictures(12), 30.0, (9, 10, 11))
    assert known.code == "layers" and known.wide_db > 30.0 > known.snr_db
    name, gain_db = known.layers[0]
    assert name in ("conv1", "relu1") and gain_db > 3.0 and known.layers_db > known.snr_db + 3.0
    assert set(known.pictures) == {"p9", "p10", "p11"}


def test_without_a_tensor_left_in_8_bits_no_layer_is_named() -> None:
    builder, judge, split = parts(pictures(12), (9, 10, 11))
    template = builder.basis(Choice("minmax"), split.calibrating(split.report or 0)).template
    activations, weights = (frozenset(one.name for one in some) for some in (template.activations, template.weights))
    choice = Choice("minmax", wide=activations, wide_weights=weights)
    known = shortfall(MissedGoal(builder, judge, split, choice, 0.0, lambda: True))
    assert known is not None and known.code != "sixteen_bits" and known.layers == () and known.is_whole


def test_where_16_bits_do_not_suffice_it_is_said_and_layers_are_told_that_would_have_to_stay_in_float() -> None:
    known = measured(Choice("minmax"), pictures(12), 100.0, (9, 10, 11))
    assert known.code == "sixteen_bits" and known.wide_db < 100.0 and known.layers_db > known.wide_db


def test_outputs_that_are_small_with_the_usual_error_are_told_apart_from_large_errors() -> None:
    dark = measured(Choice("minmax"), scaled(pictures(12), (9, 10, 11), 0.02), 30.0, (9, 10, 11))
    assert dark.code == "small_outputs" and dark.signal_db < -6.0 and dark.noise_db < 3.0
    bright = measured(Choice("minmax"), scaled(pictures(12), (9, 10, 11), BRIGHT), 30.0, (9, 10, 11))
    assert bright.code == "layers" and bright.noise_db > 6.0


def test_without_time_for_the_layers_it_is_still_said_whether_16_bits_would_do() -> None:
    known = measured(Choice("minmax"), pictures(12), 30.0, (9, 10, 11), lambda: False)
    assert not known.is_whole and known.layers == () and known.wide_db > 30.0 > known.snr_db


def test_a_missed_goal_of_a_task_is_measured_likewise() -> None:
    class Loses:
        def add(self, *_: Any) -> None: ...

        def drop_percent(self) -> float:
            return 5.0

    result = searched_on("drop<=1%", pictures(12), (9, 10, 11), Loses)
    known = result.search["shortfall"]
    assert result.goal is not None and result.goal["reason_code"] == known["code"] == "sixteen_bits"
    assert known["wide_drop"] == 5.0 and len(known["pictures"]) == 3
    assert known["layers_drop"] == (5.0 if known["layers"] else None)


@pytest.mark.parametrize(
    ("changes", "fragments"),
    [
        ({"is_whole": False, "layers": []}, ["there was no time to look for the layers"]),
        ({"code": "sixteen_bits", "wide_drop": 5.0}, ["even with 16 bits for all tensors 5.0 % of the task are lost"]),
        ({"layers_drop": 0.5}, ["gemm cost most there", "with these layers in float 0.5 % of the task are lost"]),
        ({}, ["lowest are a, b with 8.2 dB: outputs 0.5 times, errors 7.9 times as large", "gemm cost most there"]),
        ({"layers": []}, ["no single layer costs much there; 16 bits for all tensors give these pictures 56.0 dB"]),
        ({"code": "sixteen_bits"}, ["even 16 bits for all tensors give them only 56.0 dB", "with gemm in float besid"]),
    ],
)
def test_the_report_warns_in_words(changes: dict[str, Any], fragments: list[str]) -> None:
    known = {"pictures": ["a", "b"], "snr_db": 8.2, "signal_db": -6.0, "noise_db": 18.0, "wide_db": 56.0}
    known |= {"layers": [["gemm", 4.5]], "layers_db": 17.3, "code": "layers", **changes}
    verdict = {"passed": True, "nothing_quantized": False, "snr_db": 24.0}
    lines = quality_warnings({"verdict": verdict, "quality": {"outputs": []}, "search": {"shortfall": known}})
    assert all(fragment in "\n".join(lines) for fragment in fragments)


def searched_on(
    goal: str,
    samples: Sequence[Picture],
    reporting: Sequence[int],
    meter_of: Callable[[], DropMeter | None] = lambda: None,
) -> SearchResult:
    model, options = network(), HostQuantization.model_validate({"goal": goal})
    return QuantizationSearch(
        model,
        plan(model, options),
        samples,
        options,
        parse_goal(goal),
        threads=1,
        meter_of=meter_of,
        step=lambda *_: None,
        reporting=reporting,
    ).run()


def test_where_pictures_that_did_not_choose_miss_the_goal_the_search_goes_on_until_they_reach_it() -> None:
    reporting = (9, 10, 11)
    result = searched_on("snr>=30", scaled(pictures(12), reporting, BRIGHT), reporting)
    assert result.goal is not None and result.goal["is_reached"] and result.judgement["mean_db"] >= 30.0
    codes = [one["verdict_code"] for one in result.search["candidates"]]
    assert codes.count("below_goal_unseen") == result.judgement["refused"] > 0 and result.search["shortfall"] is None


def test_what_pictures_that_did_not_choose_refused_is_not_judged_again_and_they_confirm_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal, reporting = Journal(None, "", Budget(None)), (9, 10, 11)
    samples = scaled(pictures(12), reporting, 20 * BRIGHT)
    trials = Trials(*parts(samples, reporting), parse_goal("snr>=5"), journal, lambda _: None)
    first = trials.attempt(Choice("minmax"))
    assert first.is_good
    with monkeypatch.context() as patch:
        patch.setattr(CandidateBuilder, "built", None)  # the model that would be delivered has been built
        trials.confirm_best()
    assert trials.attempt(Choice("minmax")) is first and not first.is_good and first.misses_unseen
    second = trials.attempt(Choice("mse"))
    assert second.holds_as_given and second.misses_unseen and not second.is_good
    assert len(trials.trail.candidates) == 2


def test_a_search_ends_with_what_it_chose_where_the_shortfall_cannot_be_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(*_: Any) -> Any:
        raise StageFailed("a model with more bits cannot be run")

    monkeypatch.setattr("app.conversion.toolchains.host.search.search.shortfall", failing)
    result = searched_on("snr>=90", pictures(12), (9, 10, 11))
    assert result.goal is not None and not result.goal["is_reached"]
    assert result.search["shortfall"] is None


@pytest.mark.parametrize(
    ("task", "passed", "fragment"),
    [
        ({"kind": "mask_iou", "n": 40, "answered": 0}, True, "the float model finds nothing in these pictures"),
        ({"kind": "box_f1", "n": 40, "answered": 12}, False, "finds something in only 12 of these 40 pictures"),
        ({"kind": "box_f1", "n": 40, "answered": 12}, True, ""),
        ({"kind": "box_f1", "n": 40, "answered": 20}, False, ""),
        ({"kind": "cosine", "n": 40, "answered": 0}, True, ""),
        ({"kind": "box_f1", "n": 40, "answered": None}, False, ""),
        ({"kind": "box_f1", "n": 40}, False, ""),
        (None, False, ""),
    ],
)
def test_pictures_that_show_nothing_are_told(task: dict[str, Any] | None, passed: bool, fragment: str) -> None:
    verdict = {"passed": passed, "nothing_quantized": False, "snr_db": 5.0}
    lines = [line for line in quality_warnings({"verdict": verdict, "quality": {"outputs": [], "task": task}})]
    told = [line for line in lines if "the float model finds" in line]
    assert (fragment in told[0] and len(told) == 1) if fragment else not told


def test_a_loss_of_the_task_behind_a_good_snr_is_told() -> None:
    report = {
        "verdict": {"passed": True, "nothing_quantized": False, "snr_db": 22.3},
        "quality": {"outputs": [], "task": {"kind": "top1", "n": 16, "answered": 16, "float_agreement": 0.75}},
    }
    [line] = quality_warnings(report)
    assert line.startswith("the SNR is good, but the task loses 25.0 %") and '"drop<=1%"' in line
