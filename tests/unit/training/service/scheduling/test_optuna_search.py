"""How a search goes on, and which tasks stop early: pure functions of what is on record."""

from __future__ import annotations

from statistics import median

import pytest

from app.training.model.sweep import EarlyStop, Interval, Point, draw_points
from app.training.service.scheduling.optuna_search import Report, Trial, may_continue, propose_point

pytest.importorskip("optuna", reason="needs the extra train")
RATE = Interval(1e-6, 1.0, is_log=True)
VARY = {"lr": RATE, "depth": Interval(1, 8, is_whole=True), "kind": ["a", ["b"], None]}


def searched(count: int) -> list[Trial]:
    """A search whose best rate is 1e-3, one task after the other."""
    trials: list[Trial] = []
    for _ in range(count):
        point = propose_point({"lr": RATE}, trials, seed=1, is_lower_better=True)
        assert point is not None
        trials.append(Trial(point, True, distance(point)))
    return trials


def distance(point: Point) -> float:
    rate = point["lr"]
    assert isinstance(rate, float)
    return max(rate / 1e-3, 1e-3 / rate)


def test_a_search_comes_nearer_than_chance() -> None:
    by_chance = [distance(point) for point in draw_points({"lr": RATE}, 100, seed=1)]
    later = [distance(trial.point) for trial in searched(25)[10:]]
    assert median(later) < median(by_chance) / 2


def test_the_next_values_follow_from_the_record_alone() -> None:
    trials = [
        Trial({"lr": 1e-3, "depth": 2, "kind": ["b"]}, True, 0.5),
        Trial({"lr": 1e-2, "depth": 3, "kind": None}, True, 0.9, stopped_at=10),
        Trial({"lr": 0.5, "depth": 8, "kind": "a"}, True),
        Trial({"lr": 1e-4, "depth": 5, "kind": "a"}),
    ]
    first, again = (propose_point(VARY, trials, seed=3, is_lower_better=True) for _ in range(2))
    assert first is not None and first == again
    assert 1e-6 <= first["lr"] <= 1 and first["depth"] in range(1, 9) and first["kind"] in ["a", ["b"], None]  # type: ignore[operator]


def test_no_point_comes_twice_and_none_after_the_last() -> None:
    vary = {"depth": Interval(1, 4, is_whole=True)}
    trials: list[Trial] = []
    while (point := propose_point(vary, trials, seed=0, is_lower_better=True)) is not None:
        trials.append(Trial(point, True, 1.0))
    assert sorted(trial.point["depth"] for trial in trials) == [1, 2, 3, 4]  # type: ignore[type-var]


RULE = EarlyStop(10, 3)


@pytest.mark.parametrize(
    ("reached", "does_go_on"),
    [
        ([("a", 10, 1.0)], True),  # nobody to compare it with
        ([("a", 10, 1.0), ("b", 10, 0.5)], True),
        ([("a", 10, 0.5), ("b", 10, 1.0)], False),
        ([("a", 10, 0.5), ("b", 10, 0.7), ("c", 10, 0.9), ("d", 10, 0.8), ("e", 10, 0.6), ("f", 10, 0.55)], True),
        ([("a", 10, 0.5), ("b", 10, 0.4), ("a", 30, 0.1), ("b", 30, 0.2)], False),
    ],
)
def test_one_of_three_goes_on_by_what_it_has_at_the_same_step(
    reached: list[tuple[str, int, float]], does_go_on: bool
) -> None:
    assert may_continue([Report(*one) for one in reached], RULE, is_lower_better=True) is does_go_on


def test_of_a_reward_the_higher_ones_go_on() -> None:
    reports = [Report("a", 10, 1.0), Report("b", 10, 0.5)]
    assert not may_continue(reports, RULE, is_lower_better=False)
