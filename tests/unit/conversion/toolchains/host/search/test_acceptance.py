"""When a score holds a goal."""

from __future__ import annotations

import pytest

from app.conversion.goals import parse_goal
from app.conversion.toolchains.host.search.acceptance import MARGIN_DB, holds
from app.conversion.toolchains.host.search.score import SPREAD_DB_MAX, Score

UNEVEN = Score({"y": [12.0, 30.0, 38.0], "z": [40.0, 40.0, 40.0]})


def test_pictures_that_differ_are_not_sure_of_their_mean() -> None:
    assert UNEVEN.assured_db == pytest.approx(80 / 3 - SPREAD_DB_MAX), "three so far apart say little"
    assert 21.0 < Score({"y": [21.9, 22.0, 22.1]}).assured_db < 22.0
    assert Score({"y": [21.0]}).assured_db == 21.0


@pytest.mark.parametrize(
    ("goal", "margin_db", "is_held"), [("snr>=24", 0.0, True), ("snr>=24", 1.0, False), ("snr>=20", 0.0, True)]
)
def test_a_goal_is_held_by_a_margin(goal: str, margin_db: float, is_held: bool) -> None:
    assert holds(parse_goal(goal), UNEVEN, margin_db) is is_held


def test_no_picture_may_be_below_the_floor() -> None:
    assert not holds(parse_goal("snr>=20"), Score({"y": [9.9, 40.0, 40.0]}))


def test_a_drop_that_is_not_known_is_not_held() -> None:
    assert not holds(parse_goal("drop<=1%"), UNEVEN)
    assert holds(parse_goal("drop<=1%"), Score(drops=[0.5, 1.0]))
    assert holds(parse_goal("drop<=1%"), Score(drops=[0.9]), MARGIN_DB), "the usual margin is one of SNR"
    assert not holds(parse_goal("drop<=1%"), Score(drops=[1.1]))
