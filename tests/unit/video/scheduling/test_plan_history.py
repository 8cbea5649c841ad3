"""What the profile policy remembers of the plan in force."""

from __future__ import annotations

from typing import Any

from app.video.scheduling.plan_history import PERIODS, SETTLE_S, SOON_S, STAY_S, PlanHistory


def begun(state: dict[str, Any], *moments: float) -> None:
    for now in moments:
        PlanHistory(state, now).begin()


def test_a_plan_is_young_and_settles_only_if_it_replaced_another() -> None:
    first: dict[str, Any] = {}
    begun(first, 100.0)
    later: dict[str, Any] = {}
    begun(later, 0.0, 100.0)
    for state, is_replacement in ((first, False), (later, True)):
        assert PlanHistory(state, 100.0 + SETTLE_S - 0.1).is_settling is is_replacement
        assert PlanHistory(state, 100.0 + SOON_S - 0.1).is_young is is_replacement
        assert not PlanHistory(state, 100.0 + STAY_S - 0.1).is_rested
    aged = PlanHistory(later, 100.0 + SOON_S)
    assert aged.is_rested and not (aged.is_young or aged.is_settling)


def test_results_of_a_plan_that_was_replaced_do_not_count() -> None:
    history = PlanHistory({}, 0.0)
    assert history.sees(None) and history.sees(3)
    history.begin()
    assert not history.sees(3) and history.sees(4) and history.sees(3), "with the first results of the new plan"


def test_another_plan_begins_anew_but_is_no_sudden_trouble_while_frames_stay_late() -> None:
    history = PlanHistory({}, 0.0)
    history.note_results(is_late=True)
    assert (history.late, history.is_sudden) == (1, True)
    for _ in range(PERIODS):
        history.note_other(is_better=True)
    assert history.has_been_outdone
    history.begin()
    assert (history.late, history.streak, history.has_been_outdone) == (0, 0, False)
    history.note_results(is_late=True)
    assert (history.late, history.is_sudden) == (1, False)
    history.note_results(is_late=False)
    history.note_other(is_better=False)
    assert (history.late, history.streak) == (0, 0)


def test_a_new_goal_is_noticed_once() -> None:
    state: dict[str, Any] = {}
    assert [PlanHistory(state, 0.0).note_goal(*goal) for goal in ((1.0, 0.5), (1.0, 0.5), (2.0, 0.5), (2.0, 0.5))] == [
        False,
        False,
        True,
        False,
    ]


def test_a_clock_that_began_anew_leaves_no_plan_of_the_future() -> None:
    state: dict[str, Any] = {}
    begun(state, 1e6)
    assert not PlanHistory(state, 10.0).is_rested
    assert PlanHistory(state, 10.0 + STAY_S).is_rested
