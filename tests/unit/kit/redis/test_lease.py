"""Renewing a lease in Redis; what leases have in common is in tests/contract/test_leases.py."""

from __future__ import annotations

import time

import pytest
import redis

from app.kit.redis.lease import RedisLease
from tests.harness.valkey import Valkey

LONG_S = 60


@pytest.fixture
def client(valkey: Valkey) -> redis.Redis:
    return valkey.client


def has_passed(client: redis.Redis, name: str) -> bool:
    """Waits until the key has run out."""
    deadline = time.monotonic() + 120
    while client.exists(name):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return True


def test_who_dies_does_not_get_it_back_by_renewing(client: redis.Redis) -> None:
    dead = RedisLease(client, "lease", ttl_s=0.05)
    dead.take()
    assert has_passed(client, "lease")
    assert not dead.renew()


def test_renewing_makes_it_last(client: redis.Redis) -> None:
    lease = RedisLease(client, "lease", ttl_s=LONG_S)
    lease.take()
    client.pexpire("lease", 1000)
    lease.renew()
    assert client.pttl("lease") > 1000


def test_a_server_that_forgot_its_scripts_is_told_them_again(client: redis.Redis) -> None:
    lease = RedisLease(client, "lease", ttl_s=LONG_S)
    lease.take()
    client.script_flush()
    assert lease.renew()
