"""What an agent reports of a worker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.edge.agent.store import AgentStore
from app.edge.agent.worker_status import WorkerStatus
from app.nodes.model import Operation, Order, WorkKey

ORDER = Order(
    5, "edge0", WorkKey("programs", "u1", "edge"), "default", "helmet", Operation.INSERT, 1, {}, is_acknowledged=True
)


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("10.0.0.5", "http://10.0.0.5:9101"),
        ("fd00::5", "http://[fd00::5]:9101"),
        ("[fd00::5]", "http://[fd00::5]:9101"),
        ("edge.local", "http://edge.local:9101"),
    ],
)
def test_a_worker_that_serves_is_at_the_nodes_address(address: str, url: str, tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "agent.db", "edge0")
    context: Any = SimpleNamespace(store=store, data=tmp_path, address=address)
    status = WorkerStatus(ORDER, None, context, lambda: None)
    status.record = replace(status.record, serves=True, port=9101)
    status.process = SimpleNamespace(is_running=True, pid=1)  # type: ignore[assignment]
    assert status.report().url == url
    store.close()
