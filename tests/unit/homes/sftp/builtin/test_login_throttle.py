"""Guessing passwords over SFTP gets slower and slower, and keeps nobody out for good."""

from __future__ import annotations

import pytest

from app.homes.sftp.builtin.login_throttle import (
    ADDRESS_DELAY_S,
    FORGET_S,
    FREE_TRIES,
    MAX_COUNTS,
    REFUSED_FROM,
    USER_DELAY_S,
    LoginThrottle,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> LoginThrottle:
    return LoginThrottle(clock)


def test_a_few_slips_cost_nothing_and_then_each_costs_more(throttle: LoginThrottle) -> None:
    delays = []
    for _ in range(REFUSED_FROM):
        delays.append(throttle.delay_s("1.1.1.1", "alice"))
        throttle.failed("1.1.1.1", "alice")
    assert delays[:FREE_TRIES] == [0.0] * FREE_TRIES
    growing = [delay for delay in delays[FREE_TRIES:] if delay is not None and delay < ADDRESS_DELAY_S]
    assert len(growing) > 3
    assert growing == sorted(set(growing))
    assert throttle.delay_s("1.1.1.1", "alice") is None


def test_an_address_that_tries_many_names_is_slowed_down_too(throttle: LoginThrottle) -> None:
    for number in range(REFUSED_FROM):
        throttle.failed("1.1.1.1", f"user{number}")
    assert throttle.delay_s("1.1.1.1", "somebody") is None
    assert throttle.delay_s("2.2.2.2", "somebody") == 0


def test_a_user_whose_name_is_attacked_from_everywhere_comes_in_all_the_same(throttle: LoginThrottle) -> None:
    throttle.succeeded("9.9.9.9", "alice")
    for number in range(500):
        throttle.failed(f"1.1.{number // 250}.{number % 250}", "alice")
    assert throttle.delay_s("9.9.9.9", "alice") == 0
    assert 0 < (throttle.delay_s("8.8.8.8", "alice") or 0) <= USER_DELAY_S


def test_having_one_account_is_no_way_to_guess_at_another(throttle: LoginThrottle) -> None:
    for _ in range(REFUSED_FROM):
        throttle.failed("1.1.1.1", "victim")
        throttle.succeeded("1.1.1.1", "attacker")
    assert throttle.delay_s("1.1.1.1", "victim") is None


def test_an_address_is_looked_at_again_after_a_while_and_forgiven_in_the_end(
    throttle: LoginThrottle, clock: Clock
) -> None:
    for _ in range(REFUSED_FROM):
        throttle.failed("1.1.1.1", "alice")
    clock.now += ADDRESS_DELAY_S
    assert throttle.delay_s("1.1.1.1", "alice") is not None
    clock.now += FORGET_S
    assert throttle.delay_s("1.1.1.1", "alice") == 0


def test_a_flood_of_names_takes_no_more_memory_than_so_much(throttle: LoginThrottle) -> None:
    for number in range(MAX_COUNTS + 100):
        throttle.failed(f"address{number}", f"name{number}")
    assert len(throttle._users) <= MAX_COUNTS
    assert len(throttle._addresses) <= MAX_COUNTS
