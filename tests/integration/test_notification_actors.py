"""From the end of a job to the receiver: the product's own processes, while something is away."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import redis

from app.kit.queue.broker import NAMESPACE
from app.kit.queue.messages import Queue
from tests.harness.api import Api, pngs, small_model
from tests.harness.deployment import DRAMATIQ, Deployment
from tests.harness.http_server import respond, served
from tests.harness.until import until

WORKER = [DRAMATIQ, "actors", "--queues", Queue.NOTIFICATIONS.value, "--processes", "1", "--threads", "2"]
WAITING = f"{NAMESPACE}:{Queue.NOTIFICATIONS}"


@pytest.mark.slow
def test_the_end_of_a_job_is_told_though_worker_and_database_were_away(tmp_path: Path) -> None:
    bodies: list[dict[str, Any]] = []

    def receive(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        bodies.append(json.loads(body))
        respond(handler, status=204)

    with (
        served(receive) as hook,
        Deployment(tmp_path, notification_networks="127.0.0.0/8") as deployment,
        Api(deployment.url) as api,
        redis.Redis(port=deployment.redis_port, db=1) as queues,
    ):
        deployment.workers("actors", onnx=1)
        deployment.web()
        target = {"kind": "webhook", "address": hook, "events": ["job.failed"]}
        assert api.http.post("/notifications/targets", json=target).status_code == 201
        job_id = api.start(small_model(), pngs(2), name="told")
        assert api.http.post(f"/jobs/{job_id}/cancel").status_code == 200
        assert queues.llen(WAITING) == 1, "it was sent in the step that ended the job"

        database = tmp_path / "data" / "modelmill.db"
        hidden = database.rename(database.with_suffix(".away"))
        database.mkdir()  # so that it cannot be opened
        deployment.start(WORKER)
        until(lambda: queues.hlen(f"{WAITING}.DQ.msgs"))
        assert not queues.exists(f"{WAITING}.XQ"), "a dead letter would never be told"
        database.rmdir()
        hidden.rename(database)
        until(lambda: bodies)
    assert bodies[0]["type"] == "job.failed"
    assert bodies[0]["data"]["name"] == "told"
    assert bodies[0]["data"]["code"] == "CANCELLED"
