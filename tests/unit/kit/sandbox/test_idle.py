"""A sandbox that gives its memory back while nobody needs it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from app.kit.sandbox import runner
from app.kit.sandbox.runner import Finished, Limits, Sandbox

LIMITS = Limits(1 << 30, 10, 1)


class FakeServer:
    """In place of the fork server: started, and ended."""

    def __init__(self) -> None:
        self.has_ended = threading.Event()

    def wait(self) -> None:
        self.has_ended.set()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[FakeServer]:
    servers: list[FakeServer] = []

    def ensure(self: Any) -> None:
        if self._server is None:
            self._server = FakeServer()
            servers.append(self._server)

    def run(self: Any, *_: Any) -> Finished:
        self._ensure_server()
        return Finished({}, 0, 0, 0)

    monkeypatch.setattr(Sandbox, "_ensure_server", ensure)
    monkeypatch.setattr(Sandbox, "_run", run)
    monkeypatch.setattr(runner.os, "geteuid", lambda: 1)
    return servers


def run(sandbox: Sandbox, folder: Path) -> None:
    sandbox.run("m:f", {}, work_dir=folder, limits=LIMITS)


def test_it_is_started_by_the_first_run_and_ends_once_it_is_idle(started: list[FakeServer], tmp_path: Path) -> None:
    sandbox = Sandbox(idle_s=0.01)
    sandbox.start()
    assert started == []
    run(sandbox, tmp_path)
    assert started[0].has_ended.wait(120)
    run(sandbox, tmp_path)
    assert len(started) == 2
    sandbox.close()


def test_a_run_that_begins_meanwhile_keeps_it(started: list[FakeServer], tmp_path: Path) -> None:
    sandbox = Sandbox(idle_s=3600)
    run(sandbox, tmp_path)
    with sandbox._busy():
        sandbox._rest_now()
        assert not started[0].has_ended.is_set()
    sandbox._rest_now()
    assert started[0].has_ended.is_set()
    sandbox.close()


def test_without_a_limit_it_is_started_at_once_and_stays(started: list[FakeServer], tmp_path: Path) -> None:
    sandbox = Sandbox()
    sandbox.start()
    run(sandbox, tmp_path)
    assert len(started) == 1 and sandbox._rest is None
    sandbox.close()
    assert started[0].has_ended.is_set()
