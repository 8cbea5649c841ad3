"""What is measured of a model beside its outputs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest

from app.conversion.toolchains.host import quality


class TimedSession:
    """Takes these times, one after the other, on a clock of its own."""

    def __init__(self, clock: Clock, *runs_s: float) -> None:
        self.clock, self.runs_s = clock, cycle(runs_s)

    def run(self, *_: Any) -> dict[str, Any]:
        self.clock.now_s += next(self.runs_s)
        return {}


class Clock:
    now_s = 0.0

    def thread_time(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(quality, "time", clock)
    monkeypatch.setattr(quality, "run", TimedSession.run)
    return clock


def test_a_busy_machine_does_not_decide_which_of_two_models_is_faster(clock: Clock) -> None:
    """Most runs of the faster model began with cold caches, and few of the slower one."""
    faster, slower = TimedSession(clock, 0.009, 0.008, 0.002), TimedSession(clock, 0.003, 0.003, 0.009)
    sample = SimpleNamespace(name="one", arrays={})
    latencies: Any = quality.latencies_ms((faster, slower), [sample])  # type: ignore[arg-type]
    assert latencies == [2.0, 3.0]
    assert not quality.is_slower(*latencies) and quality.is_slower(*reversed(latencies))


def test_what_a_model_waits_for_is_no_time_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(pause_s: float, *_: Any) -> dict[str, Any]:
        time.sleep(pause_s)
        return {}

    monkeypatch.setattr(quality, "run", run)
    _, seconds = quality.timed_run(0.1, {})  # type: ignore[arg-type]
    assert seconds < 0.1
