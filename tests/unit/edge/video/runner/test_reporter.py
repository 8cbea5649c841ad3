"""What fits into a report of a runner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from app.edge.video.runner.checkpoint import CheckpointFile
from app.edge.video.runner.reporter import AgentClient, Reporter
from app.video.service.report_reader import MOST_CHARACTERS, parse_report


class Agent:
    """Takes every report."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def send(self, path: str, body: bytes, content_type: str = "application/json") -> bool:
        self.reports.append(json.loads(body))
        return True


def row(n_loop: int, boxes: int) -> dict[str, Any]:
    return {"n_loop": n_loop, "bbox": [[1000.5] * 4] * boxes, "labels": ["person"] * boxes, "scores": [0.5] * boxes}


@pytest.mark.slow
def test_rows_with_many_objects_come_in_several_reports_that_the_web_takes(tmp_path: Path) -> None:
    agent = Agent()
    reporter = Reporter(
        "GLOBAL_ID_1.SUB_ID_1", cast(AgentClient, agent), CheckpointFile(tmp_path), plan_result=lambda: None
    )
    for n_loop in range(1, 301):
        reporter.result(row(n_loop, 40))
    while not reporter.step([], None):
        pass
    assert len(agent.reports) > 1
    assert [one["n_loop"] for report in agent.reports for one in report["results"]] == list(range(1, 301))
    for report in agent.reports:
        assert len(json.dumps(report)) < MOST_CHARACTERS
        parse_report(report, "2026-11-22T08:00:00.000Z")


def test_many_small_rows_fill_a_report(tmp_path: Path) -> None:
    agent = Agent()
    reporter = Reporter(
        "GLOBAL_ID_1.SUB_ID_1", cast(AgentClient, agent), CheckpointFile(tmp_path), plan_result=lambda: None
    )
    for n_loop in range(1, 601):
        reporter.result({"n_loop": n_loop})
    while not reporter.step([], None):
        pass
    assert [len(report["results"]) for report in agent.reports] == [500, 100]
