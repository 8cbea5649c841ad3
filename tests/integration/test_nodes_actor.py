"""The process that watches the nodes: it tells the controllers of one that fell silent, and gives its lease back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from app.kit.clock import now
from app.nodes.model import NodeReport, Side
from app.wiring import assemble
from tests.harness.api import until
from tests.harness.deployment import DRAMATIQ, Deployment

LEASE = "nodes:leader"
pytestmark = pytest.mark.slow


def test_a_worker_watches_the_nodes_from_a_pulse_to_its_end_and_another_goes_on(tmp_path: Path) -> None:
    with Deployment(tmp_path) as deployment:
        parts = assemble(deployment.settings())
        parts.prepare()
        parts.nodes.register("edge0", Side.EDGE, now=now())
        parts.nodes.report("edge0", NodeReport(), address="", version="", now=now() - timedelta(seconds=31))
        command = [DRAMATIQ, "actors", "--queues", "joint", "--processes", "1", "--threads", "2"]
        parts.broker.send("joint", "watch_nodes")
        first = deployment.start(command)
        taken = until(lambda: deployment.redis.get(LEASE))
        first.terminate()
        first.wait(30)
        assert deployment.redis.get(LEASE) is None
        parts.broker.send("joint", "watch_nodes")
        second = deployment.start(command)
        until(lambda: deployment.redis.get(LEASE) not in (None, taken))
        second.terminate()
        second.wait(30)
        logs = "".join(log.read_text() for log in tmp_path.glob("*.log"))
        assert "Traceback" not in logs, logs
        parts.close()
