"""Refusals of stacks, before and after Ray is asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.training.errors import RayUnreachable, StacksUnavailable
from app.training.gateway.token_file import read_token
from app.training.service.dashboards import Dashboard, Dashboards
from tests.harness.ports import free_ports

TASK: Any = SimpleNamespace(is_terminal=False)
ATTEMPT: Any = SimpleNamespace(cluster="", submission_id="t--a01", ray_job_id="", ended_at=None, ray_status="RUNNING")


def test_what_does_not_run_has_no_stacks() -> None:
    ended: Any = SimpleNamespace(**{**vars(ATTEMPT), "ended_at": "2026-11-20T12:00:00.000Z"})
    with pytest.raises(StacksUnavailable, match="does not run"):
        Dashboards({}).stacks(TASK, ended)


def test_a_dashboard_that_is_away_or_unknown_is_said_to_be() -> None:
    (port,) = free_ports(1)
    with pytest.raises(RayUnreachable, match="dashboard does not answer"):
        Dashboards({"": Dashboard(f"http://127.0.0.1:{port}")}).stacks(TASK, ATTEMPT)
    with pytest.raises(RayUnreachable, match="no longer in the settings"):
        Dashboards({}).stacks(TASK, ATTEMPT)


def test_the_token_of_a_cluster_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    file = tmp_path / "west-token"
    with pytest.raises(RayUnreachable, match="west-token: No such file"):
        read_token(file)
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        assert read_token(file) == token
