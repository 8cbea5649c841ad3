"""When a score reaches a goal: on the judging pictures and, as far as altered ones show, on other scenes. Pure."""

from __future__ import annotations

from app.conversion.goals import Goal
from app.conversion.toolchains.host.search.candidates import TriedCandidate
from app.conversion.toolchains.host.search.interval import interval_of
from app.conversion.toolchains.host.search.judge import Score
from app.conversion.toolchains.host.search.report import FLOOR_DB

SPREAD_DB_MAX = 2.0
"""A mean is this much above the goal at most because its pictures differ."""
MARGIN_DB = 1.0
"""What is chosen holds the goal by so much: it was the best of several on the pictures that have chosen."""

ALTERED_SLACK_DB = 4.0
"""On altered pictures, which mostly lie lower than those of other scenes, it may be so much below the goal."""


def holds(goal: Goal, score: Score, margin_db: float = 0.0) -> bool:
    """Args: margin_db: how much more than the goal is demanded of SNR."""
    if goal.kind == "snr" and goal.threshold is not None:
        is_sure = assured_db(score) >= goal.threshold + margin_db
        return is_sure and score.min_db >= FLOOR_DB
    if goal.kind == "drop" and goal.threshold is not None:
        return score.drop_percent is not None and score.drop_percent <= goal.threshold
    return True


def assured_db(score: Score) -> float:
    """The lower end of the interval of the mean, but no more than that below it; of one picture its value."""
    low, _ = interval_of(score.values)
    return score.mean_db if low is None else max(low, score.mean_db - SPREAD_DB_MAX)


def level_db(one: TriedCandidate) -> float:
    """The highest goal that it holds, but for its lowest picture."""
    given = assured_db(one.score) - MARGIN_DB
    return given if one.altered_db is None else min(given, one.altered_db + ALTERED_SLACK_DB)
