"""When a rule applies."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.results.errors import BadRule
from app.results.model.rule import Rule, RuleSet, check_rules
from app.results.model.schedule import WEEK, Schedule, Weekday

FRIDAY = (Weekday.FRIDAY,)
NIGHT = Schedule(FRIDAY, "22:00", "06:00", "Europe/Berlin")


def moment(day: int, hour: int, minute: int = 0) -> datetime:
    """Of November 2026, in UTC; the 27th is a Friday."""
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "at", "is_covered"),
    [
        (Schedule(), moment(27, 3), True),
        (Schedule(FRIDAY), moment(27, 23, 59), True),
        (Schedule(FRIDAY), moment(28, 0), False),
        (Schedule(FRIDAY, "08:00", "18:00"), moment(27, 8), True),
        (Schedule(FRIDAY, "08:00", "18:00"), moment(27, 18), False),
        (Schedule(FRIDAY, "08:00", "18:00", "America/New_York"), moment(27, 22, 59), True),
        (NIGHT, moment(27, 20, 59), False),
        (NIGHT, moment(27, 21), True),
        (NIGHT, moment(28, 4, 59), True),  # of Friday's night
        (NIGHT, moment(28, 5), False),
        (NIGHT, moment(27, 4), False),  # of Thursday's
        (Schedule(FRIDAY, "12:00", "12:00"), moment(28, 11), True),
        (Schedule(FRIDAY, "12:00", "12:00"), moment(27, 11), False),
        (Schedule(WEEK, timezone="Nowhere"), moment(27, 12), False),
    ],
)
def test_hours_of_days_in_a_time_zone(schedule: Schedule, at: datetime, is_covered: bool) -> None:
    assert schedule.covers(at) is is_covered


def test_the_hour_that_a_change_of_clocks_repeats_is_covered_twice() -> None:
    autumn = Schedule((Weekday.SUNDAY,), "02:00", "03:00", "Europe/Berlin")
    covered = [hour for hour in range(5) if autumn.covers(datetime(2026, 10, 25, hour, 30, tzinfo=UTC))]
    assert covered == [0, 1]


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        (Schedule(()), "no day"),
        (Schedule(start="7:00"), "22:30"),
        (Schedule(end="24:00"), "22:30"),
        (Schedule(timezone="Mars/Olympus"), "Mars/Olympus"),
        (Schedule(timezone="../../etc/passwd"), "time zone"),
        (Schedule(timezone="Europe"), "time zone"),
    ],
)
def test_what_is_no_schedule_is_refused(schedule: Schedule, problem: str) -> None:
    with pytest.raises(BadRule, match=problem) as raised:
        check_rules(RuleSet(rules=(Rule("a", schedule=schedule),)))
    assert raised.value.detail == {"place": "rules.a.schedule"}
