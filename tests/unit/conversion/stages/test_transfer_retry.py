"""How long a transfer is tried again: half a minute, whatever an attempt takes, and not at all with a full store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.conversion.stages import transfer_retry
from app.conversion.stages.transfer_retry import retry_transfer
from app.kit.errors import Unavailable
from app.kit.objects import StoreFull


class Clock:
    """In place of the module `time`. Each attempt of a transfer takes `attempt_s`."""

    def __init__(self, attempt_s: float) -> None:
        self.now_s = 0.0
        self.attempt_s = attempt_s
        self.began_s: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s

    def fail(self) -> None:
        self.began_s.append(self.now_s)
        self.now_s += self.attempt_s
        raise Unavailable("The store is away.")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Clock]:
    def make(attempt_s: float) -> Clock:
        made = Clock(attempt_s)
        monkeypatch.setattr(transfer_retry, "time", made)
        return made

    return make


@pytest.mark.parametrize(
    ("attempt_s", "began_s"),
    [(0, [0, 1, 3, 7, 15, 31]), (10, [0, 11, 23, 37]), (40, [0, 41])],
    ids=["refused", "slow", "silent"],
)
def test_a_store_that_stays_away_is_tried_for_half_a_minute_after_the_first_failure(
    clock: Callable[[float], Clock], attempt_s: float, began_s: list[float]
) -> None:
    now = clock(attempt_s)
    with pytest.raises(Unavailable):
        retry_transfer(now.fail)
    assert now.began_s == began_s


def test_a_store_that_is_back_is_used(clock: Callable[[float], Clock]) -> None:
    now = clock(0)
    assert retry_transfer(lambda: "stored" if now.monotonic() >= 20 else now.fail()) == "stored"
    assert now.monotonic() == 31


def test_a_full_store_is_tried_once(clock: Callable[[float], Clock]) -> None:
    attempts = []

    def fail() -> None:
        attempts.append(1)
        raise StoreFull("The object store is full.")

    now = clock(0)
    with pytest.raises(StoreFull):
        retry_transfer(fail)
    assert (len(attempts), now.monotonic()) == (1, 0)
