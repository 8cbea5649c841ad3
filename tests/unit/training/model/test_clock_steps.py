"""How long something has lasted, although the clock was set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.training.model.clock_steps import ClockSteps

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def noted(*moments: tuple[float, float]) -> ClockSteps:
    """moments: by the wall clock and by the steady one, both in minutes."""
    steps = ClockSteps()
    for wall, steady in moments:
        steps.note(at(wall), steady * 60)
    return steps


def test_a_clock_that_nobody_sets_has_no_steps() -> None:
    steps = noted((0, 0), (1, 1), (2.2, 2))
    assert steps.elapsed(at(-10), at(2)) == timedelta(minutes=12)


@pytest.mark.parametrize(("since", "minutes"), [(-5, 16), (0, 11), (61, 10), (66, 5)])
def test_a_step_forward_does_not_count(since: float, minutes: float) -> None:
    steps = noted((0, 0), (61, 1), (71, 11))  # at 12:00:00 to 13:01, a minute later
    assert steps.elapsed(at(since), at(71)) == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("since", "minutes"),
    [
        pytest.param(-70, 81, id="before it"),
        pytest.param(0, 11, id="before it, which is later than now"),
        pytest.param(-55, 6, id="perhaps before it"),
    ],
)
def test_a_step_back_is_added_to_what_was_before_it_for_certain(since: float, minutes: float) -> None:
    steps = noted((0, 0), (-59, 1), (-49, 11))  # at 12:00:00 to 11:01, a minute later
    assert steps.elapsed(at(since), at(-49)) == timedelta(minutes=minutes)
