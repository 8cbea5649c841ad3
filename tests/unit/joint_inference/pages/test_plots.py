"""Series over time as lines: what stands below them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.joint_inference.pages.service import latency_plot
from app.joint_inference.service import TallyPoint
from app.kit.clock import to_text
from app.kit.web.line_plot import axes, path_of

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("lasting_s", "in_seconds", "first"), [(60, True, "-60"), (600, False, "-10")])
def test_what_is_short_is_labelled_in_seconds(lasting_s: int, in_seconds: bool, first: str) -> None:
    ends = (START, START + timedelta(seconds=lasting_s))
    plot = latency_plot([TallyPoint(to_text(at), {"edgeMsP50": 5.0}) for at in ends])
    assert plot is not None
    assert (plot.in_seconds, plot.x_ticks[0].label, plot.x_ticks[-1].label) == (in_seconds, first, "0")


def test_a_line_is_broken_where_nothing_is_known_and_a_lone_point_can_be_seen() -> None:
    x, y = axes((0.0, 10.0), (0.0, 10.0))
    points = [(0.0, 1.0), (2.0, 3.0), (4.0, None), (6.0, 5.0), (8.0, None)]
    first, lone = path_of(points, x, y).split(" M")
    assert first == f"M{x(0.0)} {y(1.0)} L{x(2.0)} {y(3.0)}"
    assert lone == f"{x(6.0)} {y(5.0)} m-3 0 h6"
