"""Samples on which an output is nearly silent: left out where it is so in float and in int8, counted where only float
has nothing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from app.conversion.cli.tables import facts_of_quality
from app.conversion.goals import parse_goal
from app.conversion.model import Stage
from app.conversion.options import Options
from app.conversion.toolchains.host import quality
from app.conversion.toolchains.host.bie_report import quality_warnings
from app.conversion.toolchains.host.search import sensitivity, shortfall
from app.conversion.toolchains.host.search.acceptance import holds
from app.conversion.toolchains.host.search.candidates import Choice, TriedCandidate
from app.conversion.toolchains.host.search.judge import Judge
from app.conversion.toolchains.host.search.score import Score
from app.conversion.toolchains.host.search.split import Split
from app.conversion.toolchains.host.search.trials import Trials
from app.conversion.toolchains.host.silent_outputs import (
    compute_silent_powers,
    compute_snr_beside_zero,
    compute_weakness_db,
)
from app.conversion.toolchains.tensor_comparison import TensorComparison
from app.conversion.toolchains.tensor_statistics import OutputStatistics
from app.inference.runtimes.sessions import open_session
from tests.harness.models import small
from tests.harness.models.host import arrays, run_all, work_folder
from tests.unit.conversion.toolchains.host.search.test_search import Picture
from tests.unit.conversion.toolchains.host.test_faint_outputs import SAMPLES, SHAPE, detector, model_of

pytestmark = pytest.mark.slow  # nearly each of them converts a model

BRIGHT, OFFSET = 20.0, -12.0
"""Bright samples have a mask; one that is not has e⁻¹² everywhere."""
JUDGED = Split((0,) * SAMPLES, 1, (0,), None)


@pytest.mark.parametrize("goal", ["none", "snr>=20"])
def test_a_sample_that_is_silent_in_float_and_in_int8_is_not_counted_and_that_is_said(
    goal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = work_folder(tmp_path, detector(OFFSET), arrays(SAMPLES, *SHAPE))
    for path in sorted((folder / "ref_images").iterdir())[1:]:
        np.save(path, BRIGHT * np.load(path))
    report = run_all(folder, Options.model_validate({"quantization": {"goal": goal}}))[Stage.BIE].report
    (output,) = report["quality"]["outputs"]
    assert output["uncounted_samples"] == report["verdict"]["uncounted"] == 1
    assert output["snr_db"]["n"] == output["cosine"]["n"] == SAMPLES - 1
    assert any("nearly silent there in float and in 8 bits: 1" in warning for warning in report["warnings"])
    assert any(", not counted: 1 on which" in line for line in facts_of_quality(report))
    if goal != "none":
        assert "1 not counted, as the output is nearly silent" in capsys.readouterr().out
        judgement = report["judgement"]
        assert (judgement["n"], judgement["uncounted"]) == (SAMPLES - 1, 1)
        assert all(one["pictures"] == SAMPLES - 1 for one in report["search"]["candidates"])


@pytest.mark.parametrize(("offset", "uncounted"), [(-11.0, 1), (-3.0, 0)])
def test_report_and_search_count_a_sample_alike_and_one_with_a_mask_in_int8_alone_wholly(
    offset: float, uncounted: int
) -> None:
    """The other model has a higher bias: so low that both have nothing, or so high that it sees a faint mask."""
    samples, models = pictures(), [detector(OFFSET), detector(offset)]
    sessions = [open_session(model.SerializeToString(), 1) for model in models]
    expected, actual = ([one.run(["y"], sample.arrays)[0] for sample in samples] for one in sessions)
    by_hand = [10 * np.log10(np.sum(x**2) / np.sum((x - y) ** 2)) for x, y in zip(expected, actual, strict=True)]
    counted = np.array(by_hand[uncounted:], float)
    assert by_hand[0] < -4, "the ratio that is left out, or else counts as it is"

    output = quality.measure_outputs(sessions[0], sessions[1], samples, lambda *_: None).tensors["y"]
    assert output.uncounted == uncounted
    assert output.snr_db.values == pytest.approx(counted, abs=0.01)

    judge = Judge(models[0], samples, JUDGED, threads=1, meter_of=lambda: None)
    score = judge.judge(lambda _: models[1], (0,)).score
    assert score.uncounted == ({"y": uncounted} if uncounted else {})
    assert sorted(score.values) == pytest.approx(sorted(counted), abs=0.01)

    first = shortfall._Runs(judge, judge.pictures[:1]).mean_db(models[1])
    assert 0 < first < 60 if uncounted else -60 < first < 0, "held against the power below which it is silent"


@pytest.mark.parametrize(("bias", "beside_zero"), [(0.3, 1), (0.0, 0)])
def test_report_and_search_count_values_in_int8_where_float_has_exact_zeros(bias: float, beside_zero: int) -> None:
    """Both models end with a ReLU, and the other one's higher bias lets it see something in the dark sample."""
    samples, models = pictures(), [rectifier(-1.0), rectifier(bias - 1.0)]
    sessions = [open_session(model.SerializeToString(), 1) for model in models]
    expected, actual = ([one.run(["y"], sample.arrays)[0] for sample in samples] for one in sessions)
    assert not expected[0].any() and actual[0].any() == bool(beside_zero) and all(map(np.any, expected[1:]))
    by_hand = [120.0] * (SAMPLES - 1)
    if beside_zero:
        silent_power = 1e-6 * np.median([np.mean(np.square(x, dtype=np.float64)) for x in expected[1:]])
        signals = [silent_power * expected[0].size, *(np.sum(np.square(x)) for x in expected[1:])]
        noises = [np.sum(np.square(x - y)) for x, y in zip(expected, actual, strict=True)]
        by_hand = [10 * np.log10(x / noise) for x, noise in zip(signals, noises, strict=True)]
        assert by_hand[0] < 0

    output = quality.measure_outputs(sessions[0], sessions[1], samples, lambda *_: None).tensors["y"]
    assert output.snr_db.values == pytest.approx(by_hand, abs=0.01)
    assert (output.beside_zero, output.uncounted, output.silent) == (beside_zero, 1 - beside_zero, 0)

    judge = Judge(models[0], samples, JUDGED, threads=1, meter_of=lambda: None)
    score = judge.judge(lambda _: models[1], (0,)).score
    assert sorted(score.values) == pytest.approx(sorted(by_hand), abs=0.01)
    assert score.uncounted == ({} if beside_zero else {"y": 1})
    lowest = shortfall._Runs(judge, judge.pictures[:1]).levels(models[1])[0]
    assert lowest.snr_db == pytest.approx(by_hand[0], abs=0.01) if beside_zero else lowest.snr_db > 0


WEAK = [1.0, 1.0, 1.0, 1e-3]
"""Powers of an output on four pictures: on the last one it is 30 dB weaker."""


@pytest.mark.parametrize(("noise_db", "is_held"), [(-31.0, True), (-29.0, False)])
def test_the_floor_holds_noise_against_a_hundredth_of_the_usual_power_where_the_output_is_weaker(
    noise_db: float, *, is_held: bool
) -> None:
    """20 dB below the usual power and 10 dB below that, though the signal itself is weaker than the noise."""
    silent_power = compute_silent_powers({"y": WEAK})["y"]
    weakness_db = [compute_weakness_db(power, silent_power) for power in WEAK]
    assert weakness_db == pytest.approx([0.0, 0.0, 0.0, 10.0])
    score = _score_of(10 ** (noise_db / 20))
    assert score.min_db == pytest.approx(-30.0 - noise_db, abs=0.01) and score.weak == {"y": 1}
    assert score.floor_db == pytest.approx(score.min_db + 10.0, abs=0.01)
    assert score.mean_db == pytest.approx(np.mean(score.values)), "the mean has the plain ratio"
    assert score.assured_db > 15 and holds(parse_goal("snr>=15"), score) is is_held


def test_the_verdict_says_on_how_many_pictures_the_output_is_weak() -> None:
    plain = {"snr_db": 25.0, "passed": True, "nothing_quantized": False}
    judgement = {"n": 4, "mean_db": 24.0, "min_db": 1.0, "floor_min_db": 11.0, "floor_db": 10.0, "weak": 1}
    verdict = quality.build_judged_verdict(plain, judgement)
    assert verdict["passed"] and (verdict["snr_min_db"], verdict["weak"]) == (1.0, 1)
    assert not quality.build_judged_verdict(plain, {**judgement, "floor_min_db": 9.0})["passed"]
    assert any("on 1 with a weak output" in line for line in facts_of_quality({"verdict": verdict}))
    warnings = quality_warnings({"verdict": verdict, "quality": {"outputs": []}})
    weak = "judged pictures on which the output is 20 dB weaker than usual: 1;"
    assert [warning.startswith(weak) for warning in warnings].count(True) == 1


def test_values_where_float_has_exact_zeros_are_said() -> None:
    statistics = OutputStatistics()
    beside = TensorComparison(-20.0, None, 0.1, is_beside_zero=True)
    statistics.add_comparisons("dark", {"y": beside}, ["y"])
    report = {"verdict": quality.verdict(statistics, 1), "quality": {"outputs": statistics.to_list()}}
    assert any("where float has only zeros: 1;" in warning for warning in quality_warnings(report))


def test_an_output_that_is_zero_on_every_sample_has_no_snr() -> None:
    assert compute_snr_beside_zero(1.0, 0.0) is None


@pytest.mark.parametrize("goal", ["none", "snr>=20"])
def test_a_model_whose_only_output_is_always_zero_has_no_snr_and_the_search_ends_at_once(
    goal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = {"w": np.ones((1, 3, 1, 1), np.float32), "b": np.array([-1000.0], np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["y"], "relu")]
    model = model_of(nodes, {"x": SHAPE}, {"y": [1, 1, *SHAPE[2:]]}, weights)
    folder = work_folder(tmp_path, model, arrays(SAMPLES, *SHAPE))
    report = run_all(folder, Options.model_validate({"quantization": {"goal": goal}}))[Stage.BIE].report
    (output,) = report["quality"]["outputs"]
    assert (output["snr_db"]["n"], output["uncounted_samples"]) == (0, SAMPLES) and "silent_samples" not in output
    assert (report["verdict"]["snr_db"], report["verdict"]["passed"]) == (None, False)
    assert any("no output has an SNR" in warning for warning in report["warnings"])
    if goal != "none":
        log = capsys.readouterr().out
        assert "candidate 0: int8 minmax: no SNR" in log and "(out_of_reach): no picture has an SNR" in log
        assert len(report["search"]["candidates"]) == 1 and not report["goal"]["is_reached"]
        assert report["search"]["first_bad"] is report["search"]["shortfall"] is None


def test_samples_with_a_signal_tell_what_is_silent_beside_them() -> None:
    powers = {"x": [0.0, 0.0], "y": [0.0, 0.0, 1.0], "z": [1.0, 4.0, 0.0, float("nan"), math.inf, 9.0]}
    assert compute_silent_powers(powers) == {"y": 1e-6, "z": 4e-6}


def test_what_a_tensor_costs_in_a_silent_sample_is_held_against_the_power_below_which_it_is_silent() -> None:
    x, y = np.full(4, 1e-9), np.full(4, 1e-5)
    assert sensitivity._Reference.of(x, 0.0).compute_ratio(y) == pytest.approx(1e8, rel=1e-3)
    assert sensitivity._Reference.of(x, 1e-8).compute_ratio(y) == pytest.approx(1e-2, rel=1e-3)


def test_a_candidate_is_held_against_the_best_on_the_same_pictures_although_each_leaves_out_others() -> None:
    nothing: Any = None
    trials = Trials(nothing, nothing, JUDGED, parse_goal("snr>=20"), nothing, print)
    best = Score({"y": [10.0, 30.0, 50.0, 70.0]}, {"y": ["p0", "p1", "p2", "p3"]})
    trials.trail.candidates.append(TriedCandidate(0, Choice("minmax"), best, False, False, 3, sure_db=38.0))
    assert not trials._is_given_up(Score({"y": [31.0, 51.0, 71.0]}, {"y": ["p1", "p2", "p3"]}))
    assert trials._is_given_up(Score({"y": [11.0, 31.0, 51.0]}, {"y": ["p1", "p2", "p3"]}))


def rectifier(bias: float) -> onnx.ModelProto:
    """y = ReLU(x + bias)."""
    offset = numpy_helper.from_array(np.array(bias, np.float32), "b")
    nodes = [helper.make_node("Add", ["x", "b"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    return small.model(nodes, [small.value("x", SHAPE)], [small.value("y", SHAPE)], [offset])


def pictures() -> list[Any]:
    """The first is dark."""
    values = np.random.default_rng(0).random((SAMPLES, *SHAPE), np.float32)
    factors = [1.0] + [BRIGHT] * (SAMPLES - 1)
    return [
        Picture(f"p{n}", {"x": factor * value}) for n, (factor, value) in enumerate(zip(factors, values, strict=True))
    ]


def _score_of(noise: float) -> Score:
    """Returns the score of a model that adds this to each value of an identity, on pictures with the powers WEAK."""
    samples = [Picture(f"p{place}", {"x": np.full(SHAPE, power**0.5, np.float32)}) for place, power in enumerate(WEAK)]
    models = [
        model_of(
            [helper.make_node("Add", ["x", "b"], ["y"])],
            {"x": SHAPE},
            {"y": [*SHAPE]},
            {"b": np.array([bias], np.float32)},
        )
        for bias in (0.0, noise)
    ]
    split = Split((0,) * len(WEAK), 1, (0,), None)
    return Judge(models[0], samples, split, threads=1, meter_of=lambda: None).judge(lambda _: models[1], (0,)).score
