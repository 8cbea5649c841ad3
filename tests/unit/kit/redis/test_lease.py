"""The lease: one has it, who renews keeps it, who is silent loses it."""

from __future__ import annotations

import time

import pytest
import redis

from app.kit.redis.lease import Lease
from tests.harness.valkey import Valkey

LONG_S = 60


@pytest.fixture
def client(valkey: Valkey) -> redis.Redis:
    return valkey.client


def has_passed(client: redis.Redis, name: str) -> bool:
    """Waits until the key has run out."""
    deadline = time.monotonic() + 10
    while client.exists(name):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return True


def test_one_has_it_and_may_take_it_again(client: redis.Redis) -> None:
    one, two = Lease(client, "lease", ttl_s=LONG_S), Lease(client, "lease", ttl_s=LONG_S)
    assert (one.take(), two.take(), one.take(), two.renew()) == (True, False, True, False)


def test_what_is_released_another_can_take(client: redis.Redis) -> None:
    one, two = Lease(client, "lease", ttl_s=LONG_S), Lease(client, "lease", ttl_s=LONG_S)
    one.take()
    one.release()
    assert two.take()
    assert not one.renew()


def test_nobody_releases_anothers(client: redis.Redis) -> None:
    one, two = Lease(client, "lease", ttl_s=LONG_S), Lease(client, "lease", ttl_s=LONG_S)
    one.take()
    two.release()
    assert one.renew()


def test_who_dies_loses_it_by_time_and_does_not_get_it_back_by_renewing(client: redis.Redis) -> None:
    dead, heir = Lease(client, "lease", ttl_s=0.05), Lease(client, "lease", ttl_s=LONG_S)
    dead.take()
    assert has_passed(client, "lease")
    assert not dead.renew()
    assert heir.take()
    assert not dead.take()


def test_renewing_makes_it_last(client: redis.Redis) -> None:
    lease = Lease(client, "lease", ttl_s=LONG_S)
    lease.take()
    client.pexpire("lease", 1000)
    lease.renew()
    assert client.pttl("lease") > 1000


def test_a_server_that_forgot_its_scripts_is_told_them_again(client: redis.Redis) -> None:
    lease = Lease(client, "lease", ttl_s=LONG_S)
    lease.take()
    client.script_flush()
    assert lease.renew()
