"""How long a search goes on, by clocks of the test."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.conversion.toolchains.budget import LARGE_BYTES, Budget


@dataclass
class Clocks:
    wall_s: float = 100.0
    cpu_s: float = 7.0

    def budget(self, seconds: float | None = None, last_resort_s: float = 3600.0) -> Budget:
        return Budget(seconds, last_resort_s, lambda: self.wall_s, lambda: self.cpu_s)

    def work(self, cpu_s: float, *, slowed: float = 1.0) -> None:
        self.cpu_s, self.wall_s = self.cpu_s + cpu_s, self.wall_s + slowed * cpu_s


@pytest.mark.parametrize("slowed", [0.5, 1.0, 3.0, 40.0])
def test_a_search_ends_after_the_same_work_whatever_else_the_machine_does(slowed: float) -> None:
    clocks = Clocks()
    budget = clocks.budget()
    clocks.work(4.0, slowed=slowed)
    budget.settle(1 << 20)
    clocks.work(23.9, slowed=slowed)
    assert budget.allows_more_of_the_same()
    clocks.work(0.2, slowed=slowed)
    assert not budget.allows_more_of_the_same(), "after seven times the first candidate"
    clocks.work(27.8, slowed=slowed)
    assert budget.allows(1.0)
    clocks.work(0.2, slowed=slowed)
    assert not budget.allows(1.0), "after fourteen times"


def test_a_large_model_is_searched_for_fewer_times_its_first_candidate() -> None:
    clocks = Clocks()
    budget = clocks.budget()
    clocks.work(10.0)
    budget.settle(LARGE_BYTES + 1)
    clocks.work(29.0)
    assert budget.allows(1.0)
    clocks.work(2.0)
    assert not budget.allows(1.0)


def test_a_budget_that_was_named_is_one_of_wall_time_alone() -> None:
    clocks = Clocks()
    budget = clocks.budget(60.0)
    clocks.work(1.0)
    budget.settle(1 << 20)
    clocks.work(100.0, slowed=0.5)
    assert budget.allows(0.9)
    clocks.work(10.0)
    assert (budget.share, budget.allows(1.0)) == (pytest.approx(61 / 60), False)


def test_without_a_named_budget_the_clock_is_the_last_resort_and_told_apart() -> None:
    clocks = Clocks()
    budget = clocks.budget(last_resort_s=1000.0)
    clocks.work(4.0)
    budget.settle(1 << 20)
    clocks.work(30.0)
    assert budget.allows(1.0) and not budget.is_last_resort, "the CPU time is used up first"
    clocks.work(5.0, slowed=200.0)
    assert not budget.allows(1.0) and budget.is_last_resort
    named = clocks.budget(1.0)
    clocks.work(5.0, slowed=200.0)
    assert not named.allows(1.0) and not named.is_last_resort, "the clock is what was named"


def test_it_knows_whether_something_was_left_out_for_lack_of_it() -> None:
    clocks = Clocks()
    budget = clocks.budget()
    clocks.work(4.0)
    budget.settle(1 << 20)
    assert budget.allows(0.6) and budget.allows_more_of_the_same() and not budget.is_cut
    clocks.work(26.0)
    assert budget.allows(0.6) and not budget.allows_more_of_the_same() and budget.is_cut
    other = clocks.budget(10.0)
    clocks.work(7.0)
    assert not other.is_cut and not other.allows(0.6) and other.is_cut


def test_a_resumed_search_counts_on_from_what_it_had_used() -> None:
    clocks = Clocks()
    budget = clocks.budget(100.0)
    clocks.work(50.0)
    budget.resume(90.0, 30.0)
    assert (budget.elapsed_s, budget.cpu_s) == (90.0, 30.0) and budget.allows(0.95) and not budget.allows(0.9)


def test_what_the_budget_is_is_said_in_words() -> None:
    clocks = Clocks()
    assert clocks.budget(90.0).text == "at most 90 s by the clock"
    budget = clocks.budget()
    assert budget.text == "a multiple of the first candidate's CPU time"
    clocks.work(10.0)
    budget.settle(1 << 20)
    assert budget.text == "at most 140 s of CPU time"
