"""When a score reaches a goal: on the judging pictures and, as far as altered pictures show it, on other scenes.
Pure."""

from __future__ import annotations

from app.conversion.goals import Goal
from app.conversion.toolchains.host.search.candidates import TriedCandidate
from app.conversion.toolchains.host.search.score import FLOOR_DB, Score

MARGIN_DB = 1.0
"""The chosen candidate has to exceed the goal by this much, since it was the best of several on the pictures that
chose."""

ALTERED_SLACK_DB = 4.0
"""Altered pictures usually score lower than other scenes, so their score may be below the goal by this much."""


def holds(goal: Goal, score: Score, margin_db: float = 0.0) -> bool:
    """Returns whether a score reaches the goal.

    Args:
        margin_db: how much more SNR than the goal is required.
    """
    if goal.kind == "snr" and goal.threshold is not None:
        is_sure = score.assured_db >= goal.threshold + margin_db
        return is_sure and score.floor_db >= FLOOR_DB
    if goal.kind == "drop" and goal.threshold is not None:
        return score.drop_percent is not None and score.drop_percent <= goal.threshold
    return True


def lower_of(goal: Goal, one: Score, other: Score) -> Score:
    """Returns the score that is farther from the goal: that loses more of the task, where that is the goal and known of
    both, and otherwise that assures the lower SNR."""
    if goal.kind == "drop" and one.drop_percent is not None and other.drop_percent is not None:
        return max(one, other, key=lambda score: score.drop_percent or 0.0)
    return min(one, other, key=lambda score: score.assured_db)


def level_db(one: TriedCandidate) -> float:
    """Returns the highest goal that the candidate reaches, ignoring its lowest picture."""
    given = one.score.assured_db - MARGIN_DB
    return given if one.altered_db is None else min(given, one.altered_db + ALTERED_SLACK_DB)
