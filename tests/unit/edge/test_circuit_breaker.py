"""What has failed too often in a row is left alone for a while."""

from __future__ import annotations

from app.edge.circuit_breaker import CircuitBreaker


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker = CircuitBreaker(errors=3, pause_s=30)
    breaker.failed(0)
    breaker.failed(1)
    breaker.succeeded()
    for moment in (2, 3):
        breaker.failed(moment)
        assert breaker.left_s(moment) == 0
    breaker.failed(4)
    assert (breaker.failures, breaker.left_s(4), breaker.left_s(30)) == (3, 30, 4)


def test_after_its_pause_it_is_on_trial() -> None:
    breaker = CircuitBreaker(errors=2, pause_s=10)
    breaker.failed(0)
    breaker.failed(0)
    assert breaker.left_s(10) == 0
    breaker.failed(10)
    assert breaker.left_s(10) == 10
    breaker.succeeded()
    breaker.failed(21)
    assert breaker.left_s(21) == 0


def test_its_pauses_may_grow_up_to_a_limit_however_often_it_fails() -> None:
    breaker = CircuitBreaker(errors=2, pause_s=1, growth=2, most_pause_s=30)
    pauses = []
    for _ in range(5000):
        breaker.failed(0)
        pauses.append(breaker.left_s(0))
    assert pauses[:8] == [0, 1, 2, 4, 8, 16, 30, 30]
    assert set(pauses[8:]) == {30}
