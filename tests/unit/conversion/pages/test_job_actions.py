"""Which action comes first, and which can be applied by a click."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.conversion.model import Artifact, JobRecord, Status, submitted
from app.conversion.options import Options
from app.conversion.pages.job_actions import action_context
from app.conversion.service.quality import Reports

SURE = {"is_sure": True, "family": "yunet", "title": "YuNet", "summary": "BGR", "preprocess": {"color": "BGR"}}


def job(recognition: dict[str, Any] | None = None) -> JobRecord:
    record = submitted(
        "id",
        now="2026-11-20T20:00:00.000Z",
        owner="",
        name="",
        tags=(),
        options=Options(),
        inputs={},
        intake={"recognition": recognition},
    )
    return replace(record, status=Status.COMPLETED, artifacts={"out.nef": Artifact("k", 1, "s")})


def bie(*, passed: bool) -> dict[str, Any]:
    return {"verdict": {"snr_db": 12.0, "rule": "r", "passed": passed}, "calibration": {"samples": 500}}


def context(record: JobRecord, report: dict[str, Any] | None) -> dict[str, Any]:
    return action_context(record, Reports(bie=report).quality("host"), report)


def test_what_makes_the_input_wrong_comes_first_and_can_be_applied() -> None:
    actions = context(job(SURE), bie(passed=False))
    assert actions["next_action"].name == "preprocess:" and actions["next_action"].can_apply
    assert not actions["is_good"] and actions["can_deploy"]


def test_a_good_result_asks_for_nothing_first() -> None:
    actions = context(job(SURE), bie(passed=True))
    assert actions["next_action"] is None and actions["is_good"]
    assert [one.name for one in actions["more_actions"]] == ["preprocess:"]


def test_a_result_that_keeps_the_rule_and_misses_its_goal_is_not_good() -> None:
    missed = {**bie(passed=True), "goal": {"text": "snr>=45", "kind": "snr", "threshold": 45.0, "is_reached": False}}
    actions = context(job(SURE), missed)
    assert not actions["is_good"] and actions["next_action"] is not None


def test_a_good_snr_that_hides_a_loss_of_the_task_is_not_good() -> None:
    hidden = {**bie(passed=True), "quality": {"task": {"kind": "top1", "n": 16, "float_agreement": 0.5}}}
    actions = context(job(), hidden)
    assert not actions["is_good"]
    assert actions["next_action"].name == "task:" and actions["next_action"].can_apply


@pytest.mark.parametrize("change", [{"color": "PINK"}, {"no_such_field": 1}])
def test_a_change_that_does_not_fit_the_options_is_not_offered_as_a_click(change: dict[str, Any]) -> None:
    actions = context(job({**SURE, "preprocess": change}), bie(passed=False))
    assert not actions["next_action"].can_apply


def test_a_job_without_a_report_has_no_action() -> None:
    actions = context(job(), None)
    assert actions["next_action"] is None and actions["more_actions"] == []
