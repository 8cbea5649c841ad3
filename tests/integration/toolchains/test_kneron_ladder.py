"""The vendor's ladder, climbed in its Python by the stand-in: where the climb ends, and what it reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.conversion.model import Stage
from app.conversion.toolchains.base import StageResult
from app.conversion.toolchains.kneron.vendor import Vendor, VendorOutcome
from app.kit.sandbox.errors import StageFailed
from tests.standins import kneron


def bie(folder: Path, fail: str, platform: str = "720", **options: Any) -> StageResult:
    return (
        kneron.job(folder, fail, platform, goal="snr>=20", **options).prime().run(Stage.BIE, kneron.toolchain(folder))
    )


def test_the_climb_ends_at_the_first_rung_that_holds_the_goal_and_the_next_stage_reads_that(tmp_path: Path) -> None:
    job, tool = kneron.job(tmp_path, "analysis:snr_ladder", "720", goal="snr>=20").prime(), kneron.toolchain(tmp_path)
    result = job.run(Stage.BIE, tool)
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
    json.dumps(result.report)
    made = job.run(Stage.NEF, tool)
    assert made.output.name == "out.nef"
    assert made.output.stat().st_size > 0


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
        bie(tmp_path, "analysis:cpu_op", "520")


def test_the_budget_lets_no_further_rung_begin(tmp_path: Path) -> None:
    result = bie(tmp_path, "analysis:snr_ladder", budget_s=0.01)
    assert len(result.report["search"]["candidates"]) == 1
    assert result.report["search"]["ended_by"] == "budget"


class Killed(BaseException):
    """As if the process had ended."""


def test_a_climb_whose_process_ends_goes_on_from_the_runs_that_were_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = kneron.job(tmp_path, "analysis:snr_ladder", "720", goal="snr>=17").prime()
    runs, run = list[str](), Vendor.run

    def counted(self: Vendor, question: dict[str, Any], *args: Any) -> VendorOutcome:
        runs.append(question["arguments"]["analysis"]["datapath_bitwidth_mode"])
        if len(runs) == 3:
            raise Killed
        return run(self, question, *args)

    monkeypatch.setattr(Vendor, "run", counted)
    with pytest.raises(Killed):
        job.run(Stage.BIE, kneron.toolchain(tmp_path))
    result = job.run(Stage.BIE, kneron.toolchain(tmp_path))
    assert runs == ["int8", "int8", "mix light", "mix light"]
    assert [row["snr_db"] for row in result.report["search"]["candidates"]] == [12.0, 13.5, 17.0]
    assert result.summary["snr_db"] == 17.0 and result.output.stat().st_size > 0
