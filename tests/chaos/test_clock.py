"""The wall clock of one process jumps by an hour under its work, as a wrong clock does when it is set."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.harness.faults.invariants import ONCE, assert_recovered
from tests.harness.faults.supervised_deployment import SCHEDULER, SupervisedDeployment
from tests.harness.until import until
from tests.harness.variants import exhaustive

pytestmark = pytest.mark.slow
HOUR_S = 3600
SWEEPS = 3


@pytest.mark.parametrize(
    ("part", "seconds"),
    [
        pytest.param("bie-0", HOUR_S, id="bie-0, forward", marks=pytest.mark.exhaustive),
        pytest.param("bie-0", -HOUR_S, id="bie-0, back"),
        pytest.param(SCHEDULER, HOUR_S, id="scheduler, forward", marks=pytest.mark.exhaustive),  # also below
        pytest.param(SCHEDULER, -HOUR_S, id="scheduler, back", marks=pytest.mark.exhaustive),
    ],
)
def test_a_clock_jumps_in_mid_stage(supervised: SupervisedDeployment, part: str, seconds: int) -> None:
    running = supervised.submit(bie="wait:gate")
    until(lambda: supervised.runs(running), what="a stage runs")
    waiting = supervised.submit()
    failing = supervised.submit(bie="crash:SIGSEGV")
    until(lambda: supervised.container.broker.position("bie", failing.job_id) == 1, what="two others wait behind it")
    until(lambda: supervised.record(running).stages["bie"].started_at, what="it has told when it began")
    started_at = supervised.record(running).stages["bie"].started_at
    pid = supervised.pid(part)
    supervised.jump(pid, seconds)
    supervised.swept(SWEEPS)
    assert supervised.runs(running)
    running.release()
    shown = assert_recovered(supervised, [running, waiting, failing])
    assert supervised.pid(part) == pid
    supervised.jump(pid, 0)
    assert shown[failing.job_id]["error"]["reason"] == "crashed: SIGSEGV"
    for job in (running, waiting):
        assert shown[job.job_id]["status"] == "COMPLETED"
        assert job.starts() == ONCE
    for answer in shown.values():
        assert_plausible(answer)
    assert shown[running.job_id]["stages"]["bie"]["started_at"] == started_at


@pytest.mark.parametrize("seconds", [pytest.param(HOUR_S, id="ahead"), *exhaustive(-HOUR_S, ids="behind")])
def test_a_lost_host_is_found_though_the_schedulers_clock_is_wrong(
    supervised: SupervisedDeployment, seconds: int
) -> None:
    """And nothing that lives is taken for lost."""
    running = supervised.submit(bie="wait:gate")
    until(lambda: supervised.runs(running), what="a stage runs")
    pid = supervised.pid(SCHEDULER)
    supervised.jump(pid, seconds)
    lost = supervised.taken_by_a_host_that_never_comes_back()
    until(lambda: supervised.record(lost).is_terminal, what="the sweep found it")
    assert supervised.runs(running)
    running.release()
    shown = assert_recovered(supervised, [running, lost])
    assert supervised.pid(SCHEDULER) == pid
    supervised.jump(pid, 0)
    assert shown[lost.job_id]["error"]["reason"] == "worker lost"
    assert shown[running.job_id]["status"] == "COMPLETED"


def assert_plausible(shown: dict[str, Any]) -> None:
    """No stage took less than no time, nor an hour that it did not take."""
    for name, stage in shown["stages"].items():
        if not stage["finished_at"]:
            continue
        took = datetime.fromisoformat(stage["finished_at"]) - datetime.fromisoformat(stage["started_at"])
        assert 0 <= took.total_seconds() < HOUR_S / 2, (name, took)
