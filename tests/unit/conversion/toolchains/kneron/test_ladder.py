"""The vendor's ladder: which rungs a chip has, where the climb ends, and what it reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.conversion.goals import parse_goal
from app.conversion.model import Stage
from app.conversion.options import Chip, KneronOptions, bitwidth_problem
from app.conversion.toolchains.base import StageResult
from app.conversion.toolchains.kneron import arguments
from app.conversion.toolchains.kneron.ladder import Tried, chosen, goal_report, rungs
from app.conversion.toolchains.kneron.ladder_search import search_ladder
from app.kit.sandbox.errors import StageFailed
from tests.standins import kneron

GOAL = parse_goal("snr>=20")


def names(chip: Chip) -> list[str]:
    return [rung.name for rung in rungs(chip, KneronOptions())]


def test_a_chip_of_eight_bits_varies_its_ranges_alone() -> None:
    assert names(Chip.KL520) == ["int8", "int8, mmse", "int8, mmse, outlier factor 2"]
    bits = {rung.options.datapath_bitwidth_mode for rung in rungs(Chip.KL520, KneronOptions())}
    assert bits == {"int8"}


@pytest.mark.parametrize("chip", [Chip.KL720, Chip.KL530, Chip.KL630, Chip.KL730])
def test_the_others_go_up_to_sixteen_bits_by_pairs_that_the_vendor_allows(chip: Chip) -> None:
    ladder = rungs(chip, KneronOptions())
    assert (ladder[0].name, ladder[-1].name) == ("int8", "int16")
    assert all(rung.options.mode >= 2 for rung in ladder), "an SNR is reported from mode 2 on"
    mixed = [rung for rung in ladder if rung.options.datapath_bitwidth_mode == "mixbw"]
    assert [rung.options.flops_ratio for rung in mixed] == [0.2, 0.5]


def test_the_users_own_arguments_stay_where_a_rung_says_nothing() -> None:
    ladder = rungs(Chip.KL720, KneronOptions(percentage=1.0, optimize=2, mode=3))
    assert all((rung.options.percentage, rung.options.optimize, rung.options.mode) == (1.0, 2, 3) for rung in ladder)


def bie(folder: Path, fail: str, platform: str = "720", **options: Any) -> StageResult:
    job = kneron.job(folder, fail, platform, goal="snr>=20", **options)
    return job.until(Stage.BIE, kneron.toolchain(folder))


def test_the_climb_ends_at_the_first_rung_that_holds_the_goal(tmp_path: Path) -> None:
    result = bie(tmp_path, "analysis:snr_ladder")
    search = result.report["search"]
    assert [(row["name"], row["snr_db"], row["verdict_code"]) for row in search["candidates"]] == [
        ("int8", 12.0, "below_goal"),
        ("int8, mmse", 13.5, "below_goal"),
        ("mix light", 17.0, "below_goal"),
        ("mixbw, flops ratio 0.2", 19.6, "below_goal"),
        ("mixbw, flops ratio 0.5", 22.0, "taken"),
    ]
    assert (search["ended_by"], search["taken"]) == ("reached", 4)
    assert result.report["goal"]["is_reached"]
    assert result.report["bits_requested"]["datapath"] == "mixbw"
    assert result.summary["snr_db"] == 22.0
    assert result.output.stat().st_size > 0


def test_a_model_that_holds_the_goal_at_once_takes_one_run(tmp_path: Path) -> None:
    result = bie(tmp_path, "")
    assert [row["name"] for row in result.report["search"]["candidates"]] == ["int8"]


def test_where_the_top_is_too_low_the_best_is_taken_and_said(tmp_path: Path) -> None:
    result = bie(tmp_path, "analysis:snr_ladder", "520")
    assert result.report["goal"]["reason_code"] == "best_reachable"
    assert result.report["goal"]["reason_params"] == {"snr_db": 13.5, "name": "int8, mmse"}
    assert result.report["search"]["ended_by"] == "exhausted"
    assert result.summary["passed"] is False


def test_a_rung_that_fails_is_passed_over(tmp_path: Path) -> None:
    result = bie(tmp_path, "analysis:no_int8")
    rows = result.report["search"]["candidates"]
    assert [row["verdict_code"] for row in rows] == ["failed", "failed", "taken"]
    assert rows[0]["failure"]


def test_where_every_rung_fails_the_first_failure_is_the_jobs(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="Softmax"):
        bie(tmp_path, "analysis:cpu_op")


def test_the_budget_lets_no_further_rung_begin(tmp_path: Path) -> None:
    result = bie(tmp_path, "analysis:snr_ladder", budget_s=0.01)
    assert len(result.report["search"]["candidates"]) == 1
    assert result.report["search"]["ended_by"] == "budget"


def test_what_the_next_stage_reads_is_the_rung_that_was_taken(tmp_path: Path) -> None:
    job = kneron.job(tmp_path, "analysis:snr_ladder", "720", goal="snr>=20")
    result = job.until(Stage.NEF, kneron.toolchain(tmp_path))
    assert result.output.name == "out.nef"
    assert result.output.stat().st_size > 0


def test_a_report_without_an_snr_ends_the_climb_and_says_so() -> None:
    rung = rungs(Chip.KL720, KneronOptions())[0]
    tried = [Tried(rung, snr_db=None, fps=100.0)]
    assert goal_report(GOAL, tried, 60)["reason_code"] == "snr_not_reported"
    assert chosen(GOAL, tried) is tried[0]


def test_an_empty_ladder_of_failures_has_nothing_to_take() -> None:
    rung = rungs(Chip.KL520, KneronOptions())[0]
    assert chosen(GOAL, [Tried(rung, failure="no")]) is None

    def fail(*_: object) -> Any:
        raise StageFailed("no")

    with pytest.raises(StageFailed, match="no"):
        search_ladder([rung], GOAL, 60, fail, lambda fraction, text: None)


def test_the_report_is_json(tmp_path: Path) -> None:
    json.dumps(bie(tmp_path, "").report)


def test_a_goal_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="is not a goal"):
        KneronOptions(goal="better")


def test_nodes_of_sixteen_bits_are_the_newest_chips_own() -> None:
    chosen = arguments.analysis(KneronOptions(int16_nodes=("conv_3",), const_in_bitwidth_mode="int8"), 2)
    assert chosen["quan_config"] == {"conv_3": {"bitwidth": {"all": 15}}}
    assert chosen["const_in_bitwidth_mode"] == "int8"
    assert not {"quan_config", "const_in_bitwidth_mode"} & arguments.analysis(KneronOptions(), 2).keys()
    assert bitwidth_problem(Chip.KL720, KneronOptions(int16_nodes=("conv_3",))) == "int16_nodes is for chip 730 only"
    assert bitwidth_problem(Chip.KL730, KneronOptions(int16_nodes=("conv_3",))) == ""
    assert "const_in" in bitwidth_problem(Chip.KL520, KneronOptions(const_in_bitwidth_mode="int16"))
