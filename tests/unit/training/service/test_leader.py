"""Who schedules: one at a time, woken by a wake-up, for the rest of the minute, and no longer than it has the lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import redis

from app.kit.queue.broker import connect, make_broker
from app.kit.queue.waker import Waker
from app.kit.sql.errors import DatabaseUnavailable
from app.training.service.leader import LEASE, TrainingLeader
from app.training.service.scheduling import Watch
from app.training.service.wake_up import KEY
from tests.harness.until import until
from tests.harness.valkey import Valkey

EARLY = datetime(2026, 11, 20, 12, 0, 5, tzinfo=UTC)
LATE = datetime(2026, 11, 20, 12, 0, 58, tzinfo=UTC)
SOON_S, NEVER_S = 0.01, 50.0


class Ticks:
    """Counts them. At each: what the test wants done. is_moving: what they say of the tasks."""

    def __init__(self, deed: Callable[[int, Watch], None] = lambda *_: None, *, is_moving: bool = False) -> None:
        self.count = 0
        self.deed = deed
        self.is_moving = is_moving
        self.news = 0

    def has_news(self) -> bool:
        self.news, before = max(0, self.news - 1), self.news
        return before > 0

    def tick(self, now: datetime, watch: Watch) -> bool:
        self.count += 1
        self.deed(self.count, watch)
        return self.is_moving


class Turn:
    """One leader's, in a thread."""

    def __init__(self, valkey: Valkey, ticks: Ticks, *, tick_s: float = SOON_S) -> None:
        self.client = connect(valkey.url(0))
        self.ticks = ticks
        self.is_ending = False
        self.now = EARLY
        self.leader = TrainingLeader(
            self.client, ticks, tick_s=tick_s, is_ending=lambda: self.is_ending, now=lambda: self.now
        )
        self.thread = threading.Thread(target=self.leader.lead)

    def start(self) -> Turn:
        self.thread.start()
        return self

    def end(self) -> None:
        self.is_ending = True
        if self.thread.ident is not None:
            self.thread.join(120)
            assert not self.thread.is_alive()
        self.client.close()


@pytest.fixture
def turn(valkey: Valkey) -> Iterator[Callable[..., Turn]]:
    made: list[Turn] = []

    def make(ticks: Ticks | None = None, **options: float) -> Turn:
        made.append(Turn(valkey, ticks or Ticks(), **options))
        return made[-1]

    yield make
    for each in made:
        each.end()


def test_a_leader_ticks_again_and_again_and_gives_the_lease_back_when_its_process_ends(
    valkey: Valkey, turn: Callable[..., Turn]
) -> None:
    leading = turn().start()
    until(lambda: leading.ticks.count > 2)
    assert valkey.client.exists(LEASE)
    leading.end()
    assert not valkey.client.exists(LEASE)


def test_a_turn_ends_with_the_minute(valkey: Valkey, turn: Callable[..., Turn]) -> None:
    leading = turn().start()
    until(lambda: leading.ticks.count > 0)
    leading.now = LATE
    leading.thread.join(120)
    assert not leading.thread.is_alive()
    assert not valkey.client.exists(LEASE)


@pytest.mark.slow
def test_a_pulse_that_comes_a_moment_before_its_minute_leads_through_that_minute(turn: Callable[..., Turn]) -> None:
    """The clock of whoever sends the pulse may be ahead: else it would end at once, minute after minute."""
    early = turn()
    early.now = LATE
    early.start()
    until(lambda: early.ticks.count > 0)
    early.now = LATE + timedelta(seconds=59)
    until(lambda: early.ticks.count > 20)
    early.now = LATE + timedelta(seconds=60)
    early.thread.join(120)
    assert not early.thread.is_alive()


@pytest.mark.slow
def test_of_two_one_leads_and_the_other_takes_over_when_it_ends(turn: Callable[..., Turn]) -> None:
    first = turn().start()
    until(lambda: first.ticks.count > 0)
    second = turn().start()
    until(lambda: first.ticks.count > 20)
    assert second.ticks.count == 0
    first.end()
    until(lambda: second.ticks.count > 0)


@pytest.mark.slow
def test_what_it_notices_between_two_ticks_it_decides_at_once(turn: Callable[..., Turn]) -> None:
    ticks = Ticks()
    turn(ticks, tick_s=NEVER_S).start()
    until(lambda: ticks.count == 1)
    ticks.news = 1
    until(lambda: ticks.count == 2)


def waker_of(client: redis.Redis) -> Waker:
    return Waker(client, make_broker("redis://nowhere"))


def test_a_wake_up_wakes_the_leader_and_many_are_one(valkey: Valkey, turn: Callable[..., Turn]) -> None:
    waker = waker_of(valkey.client)
    for _ in range(5):
        waker.ring(KEY)
    assert valkey.client.llen(KEY) == 1
    leading = turn(tick_s=NEVER_S).start()
    until(lambda: leading.ticks.count == 2)
    waker.ring(KEY)
    until(lambda: leading.ticks.count == 3)


@pytest.mark.slow
def test_while_something_is_on_its_way_the_leader_looks_again_soon(turn: Callable[..., Turn]) -> None:
    leading = turn(Ticks(is_moving=True), tick_s=NEVER_S).start()
    until(lambda: leading.ticks.count >= 3)


def test_a_wake_up_that_redis_does_not_hear_harms_nobody(own_valkey: Valkey) -> None:
    client = connect(own_valkey.url(0))
    own_valkey.kill()
    waker_of(client).ring(KEY)
    client.close()


def test_a_leader_that_lost_its_lease_stops_between_two_deeds(
    valkey: Valkey, turn: Callable[..., Turn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.training.service.leader.RENEW_S", 0)
    done: list[str] = []

    def deed(count: int, watch: Watch) -> None:
        valkey.client.set(LEASE, "another's")
        watch()
        done.append("what another does now")

    leading = turn(Ticks(deed)).start()
    leading.thread.join(120)
    assert not leading.thread.is_alive()
    assert (leading.ticks.count, done) == (1, [])
    assert valkey.client.get(LEASE) == b"another's"


def test_a_leader_whose_process_ends_stops_between_two_deeds(turn: Callable[..., Turn]) -> None:
    done: list[str] = []

    def deed(count: int, watch: Watch) -> None:
        leading.is_ending = True
        watch()
        done.append("more")

    leading = turn(Ticks(deed))
    leading.leader.lead()
    assert (leading.ticks.count, done) == (1, [])


def test_a_long_tick_keeps_its_lease(
    valkey: Valkey, turn: Callable[..., Turn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.training.service.leader.RENEW_S", 0)
    lives: list[int] = []

    def deed(count: int, watch: Watch) -> None:
        valkey.client.pexpire(LEASE, 3000)
        watch()
        lives.append(valkey.client.pttl(LEASE))
        leading.is_ending = True

    leading = turn(Ticks(deed))
    leading.leader.lead()
    assert lives[0] > 3000


def test_a_tick_that_the_database_broke_off_is_followed_by_another(turn: Callable[..., Turn]) -> None:
    def deed(count: int, watch: Watch) -> None:
        if count == 1:
            raise DatabaseUnavailable("The database does not answer.")

    leading = turn(Ticks(deed)).start()
    until(lambda: leading.ticks.count > 2)


def test_redis_going_away_ends_the_turn_without_an_error(own_valkey: Valkey, turn: Callable[..., Turn]) -> None:
    leading = Turn(own_valkey, Ticks())
    leading.start()
    until(lambda: leading.ticks.count > 0)
    own_valkey.kill()
    leading.thread.join(120)
    assert not leading.thread.is_alive()
    leading.end()


def test_the_heir_of_a_leader_that_was_killed_waits_for_its_lease_to_run_out(
    valkey: Valkey, turn: Callable[..., Turn]
) -> None:
    valkey.client.set(LEASE, "of a dead one", px=700)
    heir = turn().start()
    until(lambda: heir.ticks.count > 0)
