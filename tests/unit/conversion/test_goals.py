from __future__ import annotations

import pytest

from app.conversion.goals import parse_budget, parse_goal
from app.conversion.options import HostQuantization


@pytest.mark.parametrize(
    ("text", "kind", "threshold"),
    [
        ("snr >= 22.5 dB", "snr", 22.5),
        ("drop<=1%", "drop", 1.0),
        ("Fastest", "fastest", None),
        ("smallest", "smallest", None),
    ],
)
def test_goals_are_read(text: str, kind: str, threshold: float | None) -> None:
    goal = parse_goal(text)
    assert (goal.kind, goal.threshold) == (kind, threshold)


@pytest.mark.parametrize("text", ["good", "snr>20", "snr>=0", "snr>=500", "drop<=1", "drop<=200%"])
def test_what_is_not_a_goal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="goal"):
        parse_goal(text)


def test_budgets_are_read_and_refused() -> None:
    assert [parse_budget(text) for text in ("90", "90s", "10m", "1h")] == [90, 90, 600, 3600]
    with pytest.raises(ValueError, match="10m"):
        parse_budget("soon")


def test_knobs_without_a_goal_mean_no_search_and_survive_a_round_trip() -> None:
    manual = HostQuantization.model_validate({"method": "minmax"})
    assert manual.goal == "" and HostQuantization().goal == "snr>=20"
    for options in (manual, HostQuantization()):
        assert HostQuantization.model_validate(options.model_dump()) == options
        assert HostQuantization.model_validate(options.model_dump(exclude_defaults=True)) == options


def test_a_goal_and_a_knob_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="leave out one of the two"):
        HostQuantization.model_validate({"goal": "snr>=20", "method": "entropy"})
