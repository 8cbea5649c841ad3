"""Pauses that grow."""

from __future__ import annotations

from app.kit.backoff import GrowingPause


def test_a_pause_doubles_up_to_its_limit_however_it_is_counted() -> None:
    growing, pauses = GrowingPause(0.5, 3.0), [0.0]
    for _ in range(5):
        pauses.append(growing.after(pauses[-1]))
    assert pauses == [0.0, 0.5, 1.0, 2.0, 3.0, 3.0]
    assert [growing.of_try(tries) for tries in range(5)] == pauses[1:]
    assert growing.of_try(10**6) == 3.0


def test_it_may_grow_by_less_than_double() -> None:
    growing = GrowingPause(0.1, 1.0, growth=1.5)
    assert growing.after(growing.after()) == growing.of_try(1) == 0.1 * 1.5
