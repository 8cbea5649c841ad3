"""The scheduler and the controller of video jobs as their workers run them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.bootstrap.container import assemble
from app.kit.clock import now
from app.nodes.model import Operation
from app.video.model.job import JOBS, JobState
from tests.harness.deployment import DRAMATIQ, Deployment
from tests.harness.until import PATIENCE_S, until
from tests.harness.video.records import EDGE, running_video, waiting_video

pytestmark = pytest.mark.slow
ACTORS = "tests.harness.video.patient_actors"
"""Patient, for on a busy machine what came too early might come in time."""


def test_demands_and_looks_are_done_by_workers_and_what_came_too_early_a_little_later(tmp_path: Path) -> None:
    with Deployment(tmp_path) as deployment:
        container = assemble(deployment.settings())
        container.prepare()
        video, user = container.video, container.settings.local_user
        running, waiting = running_video(video, user, now=now()), waiting_video(video, user, now=now())
        for why in ("one", "two", "three"):
            video.planning.send(waiting.uid, why)
        video.jobs.wake(running.uid)
        worker = deployment.start(
            [DRAMATIQ, ACTORS, "--queues", "video", "video_plans", "--processes", "1", "--threads", "2"]
        )
        decided = until(lambda: video.jobs.decisions(user, waiting.uid), lambda job: len(job) == 2)
        assert [one.outcome for one in decided] == ["same", "new"]
        assert decided[0].at > decided[1].at
        planned = video.jobs.get(user, waiting.uid)
        assert planned.state is JobState.EXEC
        assert planned.plan is not None

        def told(uid: str) -> list[Operation]:
            with container.database.read() as conn:
                return [order.operation for order in container.nodes.orders_of(conn, JOBS, uid) if order.node == EDGE]

        assert until(lambda: told(running.uid)) == [Operation.INSERT]
        video.jobs.cancel(user, running.uid, now=now())
        until(lambda: told(running.uid) == [Operation.DELETE])
        assert len(video.jobs.decisions(user, waiting.uid)) == 2
        worker.terminate()
        worker.wait(PATIENCE_S)
        logs = "".join(log.read_text() for log in tmp_path.glob("*.log"))
        assert "Traceback" not in logs, logs
        container.close()
