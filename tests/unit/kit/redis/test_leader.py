"""Leaders of any work: one per lease, each with a tick and a way to wait of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from app.kit.queue.broker import connect
from app.kit.redis.leader import Leader, Tick
from app.kit.redis.lease import RedisLease
from tests.harness.until import until
from tests.harness.valkey import Valkey

EARLY = datetime(2026, 11, 20, 12, 0, 5, tzinfo=UTC)
NEVER_S = 50.0


class Work:
    """A leader in a thread. is_ending: is its process told to end?"""

    def __init__(self, valkey: Valkey, lease: str, tick: Tick | None = None, **options: object) -> None:
        self.client = connect(valkey.url(0))
        self.ticks: list[datetime] = []
        self.is_ending = False
        self.leader = Leader(
            RedisLease(self.client, lease, ttl_s=10),
            tick or self._tick,
            work=f"{lease} is done",
            **{"tick_s": 0.01, "is_ending": lambda: self.is_ending, "now": lambda: EARLY, **options},  # type: ignore[arg-type]
        )

    def _tick(self, at: datetime, _: Callable[[], None]) -> bool:
        self.ticks.append(at)
        return False

    @contextmanager
    def leading(self) -> Iterator[None]:
        thread = threading.Thread(target=self.leader.lead)
        thread.start()
        try:
            yield
        finally:
            self.is_ending = True
            thread.join(120)
            self.client.close()
        assert not thread.is_alive()


def test_each_work_has_a_leader_of_its_own(valkey: Valkey) -> None:
    one, other = Work(valkey, "one"), Work(valkey, "other")
    with one.leading(), other.leading():
        until(lambda: len(one.ticks) > 2 and len(other.ticks) > 2)
        assert set(one.ticks) == {EARLY}
        assert {key for key in (b"one", b"other") if valkey.client.exists(key)} == {b"one", b"other"}
    assert not valkey.client.exists("one", "other")


def test_a_second_of_the_same_work_waits(valkey: Valkey) -> None:
    first, second = Work(valkey, "one"), Work(valkey, "one")
    with first.leading():
        until(lambda: first.ticks)
        with second.leading():
            until(lambda: len(first.ticks) > 40)
            assert second.ticks == []


def test_whoever_is_woken_looks_at_once_and_who_is_not_waits(valkey: Valkey) -> None:
    woken = Work(valkey, "one", tick_s=NEVER_S, wait=lambda _: len(woken.ticks) < 3)
    with woken.leading():
        until(lambda: len(woken.ticks) == 3)
    assert len(woken.ticks) == 3


def test_what_is_not_done_while_redis_is_away_is_named(own_valkey: Valkey, caplog: pytest.LogCaptureFixture) -> None:
    work = Work(own_valkey, "one")
    own_valkey.kill()
    with caplog.at_level(logging.WARNING, "app.kit.redis.leader"):
        work.leader.lead()
    work.client.close()
    assert "one is done by none" in caplog.text
    assert work.ticks == []
