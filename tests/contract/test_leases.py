"""One suite over leases in Redis and in both databases: one has it, who takes it again keeps it, who dies loses it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.kit.lease import Lease, hold
from app.kit.redis.lease import RedisLease
from app.kit.sql import Database
from app.kit.sql.lease import SqlLease
from tests.harness.migrated import migrated_file
from tests.harness.until import PATIENCE_S, until
from tests.harness.valkey import Valkey

LONG_S = 60.0
NewLease = Callable[[float], Lease]


@pytest.fixture(params=["redis", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def new(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewLease]:
    """Another holder's side of the same lease, which holds for so many seconds."""
    if request.param == "redis":
        valkey: Valkey = request.getfixturevalue("valkey")
        yield lambda ttl_s: RedisLease(valkey.client, "lease", ttl_s=ttl_s)
        return
    if request.param == "sqlite":
        migrated_file(tmp_path / "db" / "modelmill.db")
        url = f"sqlite:///{tmp_path}/db/modelmill.db"
    else:
        url = request.getfixturevalue("postgres").migrated_database()
    database = Database(url)
    yield lambda ttl_s: SqlLease(database, "lease", ttl_s=ttl_s)
    database.close()


def test_one_has_it_and_may_take_it_again(new: NewLease) -> None:
    one, two = new(LONG_S), new(LONG_S)
    assert (one.take(), two.take(), one.take()) == (True, False, True)


def test_of_many_at_once_one_has_it(new: NewLease) -> None:
    taken: list[bool] = []
    start = threading.Barrier(8)

    def take() -> None:
        start.wait()
        taken.append(new(LONG_S).take())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 7 + [True]


def test_what_is_released_another_can_take(new: NewLease) -> None:
    one, two = new(LONG_S), new(LONG_S)
    one.take()
    one.release()
    assert two.take()
    assert not one.take()


def test_nobody_releases_anothers(new: NewLease) -> None:
    one, two = new(LONG_S), new(LONG_S)
    one.take()
    two.release()
    assert not two.take()


def test_who_dies_loses_it_by_time_and_does_not_get_it_back(new: NewLease) -> None:
    dead, heir = new(0.05), new(LONG_S)
    assert dead.take()
    until(heir.take)
    assert not dead.take()


def test_it_is_held_while_something_is_done_and_who_waits_has_it_then(new: NewLease) -> None:
    one, two = new(LONG_S), new(LONG_S)
    got: list[bool] = []

    def wait() -> None:
        with hold(two, wait_s=PATIENCE_S) as is_ours:
            got.append(is_ours)

    waiting = threading.Thread(target=wait)
    with hold(one) as is_ours, hold(two) as is_theirs:
        assert (is_ours, is_theirs) == (True, False)
        waiting.start()
    waiting.join()
    assert got == [True]
    assert one.take(), "it was released at the end"
