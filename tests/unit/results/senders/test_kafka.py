"""Which broker is sent to; what goes by it is in tests/integration/video_sinks/test_kafka.py."""

from __future__ import annotations

import asyncio

import pytest

from app.results.model.kafka_address import KafkaAddress
from app.results.senders.kafka import _Attempt


@pytest.mark.parametrize("host", ["10.0.0.5", "[::1]", "box.local"])
def test_the_broker_that_answers_is_named_with_its_port(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_problem(*_: object) -> str:
        return ""

    monkeypatch.setattr(_Attempt, "_find_topic_problem", no_problem)
    attempt = _Attempt(KafkaAddress.parse(f"kafka://{host}:9093/results"), "", 1)
    asyncio.run(attempt._look())
    assert attempt._options["bootstrap_servers"] == f"{host}:9093"
