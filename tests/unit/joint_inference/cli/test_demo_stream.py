"""Pictures that the demonstration sends to an edge worker, which may be restarted meanwhile."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler

import numpy as np
import pytest

from app.joint_inference.cli.demo import stream as demo_stream
from app.joint_inference.cli.demo.models import Digits
from app.joint_inference.cli.demo.stream import stream
from app.kit.cli.command import Unreachable
from tests.harness.http_server import respond, served
from tests.harness.ports import free_port

DIGITS = Digits(np.zeros((2, 8, 8), np.uint8), np.zeros(2, np.int64))
CLOUD = np.zeros(2, np.int64)
PREDICTION = {"probabilities": [0.9, 0.1]}
ANSWER = {"source": "edge", "edge": PREDICTION, "final": PREDICTION, "edge_ms": 1.0, "cloud_ms": None}


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_stream, "AGAIN_S", 0.0)


def test_a_worker_that_is_restarted_is_waited_for() -> None:
    statuses = [200, 503, 502, 200]

    def answer(request: BaseHTTPRequestHandler, _: bytes) -> None:
        respond(request, json.dumps(ANSWER).encode(), statuses.pop(0))

    with served(answer) as url:
        answers = list(stream(url.partition("://")[2], "digits", DIGITS, CLOUD))
    assert [one.final for one in answers] == [0, 0]
    assert statuses == []


def test_one_that_stays_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_stream, "AWAY_S", 0.0)
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(Unreachable, match=f"The edge worker at {address} does not answer"):
        next(stream(address, "digits", DIGITS, CLOUD))
