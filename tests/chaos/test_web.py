"""The web ends under its viewers: conversions go on, and whoever watched sees where they stand."""

from __future__ import annotations

import signal

import pytest

from app.conversion.model import Stage
from tests.harness.faults.invariants import assert_recovered
from tests.harness.faults.supervised_deployment import WEB, SupervisedDeployment
from tests.harness.faults.viewers import Viewers
from tests.harness.ports import free_port
from tests.harness.until import PATIENCE_S, until

pytestmark = pytest.mark.slow
VIEWERS = 30


def test_viewers_of_a_killed_web_come_back_to_the_current_state(supervised: SupervisedDeployment) -> None:
    job = supervised.submit(onnx="wait:gate", bie="wait:next")
    until(lambda: supervised.runs(job, Stage.ONNX), what="the first stage runs")
    with Viewers(supervised.url, job.job_id, VIEWERS) as viewers:
        until(lambda: viewers.all_see(status="ONNX"), what="all see the first stage")
        before = {id(viewer): viewer.connections for viewer in viewers.crowd}
        with supervised.without_web():
            job.release()
            other = supervised.submit()
            until(lambda: supervised.runs(job, Stage.BIE), what="the job goes on meanwhile")
        until(lambda: viewers.all_see(status="BIE"), what="all see the second stage")
        for viewer in viewers.crowd:
            assert viewer.cut_off == 1
            assert viewer.first_after(before[id(viewer)])["status"] == "BIE"  # no state of the past
        job.release("next")
        until(viewers.are_gone, what="all see the end")
        assert viewers.all_see(status="COMPLETED")
    assert any(notice.startswith(f"{WEB} ended unexpectedly") for notice in supervised.notices)
    shown = assert_recovered(supervised, [job, other])
    assert {answer["status"] for answer in shown.values()} == {"COMPLETED"}


def test_a_web_told_to_end_lets_its_viewers_go_and_ends_by_itself(supervised: SupervisedDeployment) -> None:
    """Each stream ends as a whole answer, so that a viewer comes back at once; none is cut off."""
    job = supervised.submit(onnx="wait:gate")
    until(lambda: supervised.runs(job, Stage.ONNX), what="the first stage runs")
    port = free_port()
    web = supervised.start(list(supervised.web_command(port)))
    log = supervised.folder / f"{supervised.processes.index(web)}.log"
    until(lambda: "Uvicorn running" in log.read_text(), what="the second web is up")
    with Viewers(f"http://127.0.0.1:{port}", job.job_id, VIEWERS, reconnects=False) as viewers:
        until(lambda: viewers.all_see(status="ONNX"), what="all see the first stage")
        web.terminate()
        code = web.wait(PATIENCE_S)
        until(viewers.are_gone, what="all streams have ended")
        assert [viewer.cut_off for viewer in viewers.crowd] == [0] * VIEWERS
    # Uvicorn ends as whoever asked expects: by the signal itself, which systemd and containers count as a clean end.
    assert code in {0, -signal.SIGTERM}
    assert "Application shutdown complete" in log.read_text()
    assert "Traceback" not in log.read_text()
    assert '"level": "error"' not in log.read_text()  # such as that the grace was not enough
    job.release()
    shown = assert_recovered(supervised, [job])
    assert shown[job.job_id]["status"] == "COMPLETED"
