"""The plots of what was tried."""

from __future__ import annotations

from app.conversion.pages import pareto
from app.conversion.service.quality.candidates import Candidate, Search

TRIED = (
    Candidate(0, "int8", 16.0, size_bytes=100 << 10, latency_ms=3.0, verdict_code="below_goal"),
    Candidate(1, "int8 mse", 22.0, size_bytes=100 << 10, latency_ms=3.1, is_taken=True),
    Candidate(2, "int16", 50.0, size_bytes=180 << 10, latency_ms=5.0, verdict_code="dearer"),
    Candidate(3, "worse int16", 40.0, size_bytes=190 << 10, latency_ms=6.0, verdict_code="worse"),
    Candidate(4, "not measured", None, size_bytes=90 << 10),
)


def test_each_measured_candidate_is_a_point_and_the_one_taken_stands_out() -> None:
    view = pareto.plots(Search(TRIED, 41.2, "reached"), 20.0)
    assert [plot.axis for plot in view.plots] == ["size", "latency"]
    assert {point.id: point.kind for point in view.plots[0].points} == {0: "front", 1: "taken", 2: "front", 3: "other"}
    assert view.front == {0, 1, 2} and (view.elapsed_s, view.ended_by) == (41.2, "reached")
    assert "22.0 dB" in view.plots[0].points[1].figures and "100 KiB" in view.plots[0].points[1].figures


def test_higher_is_better_and_right_is_dearer_and_all_lie_inside() -> None:
    plot = pareto.plots(Search(TRIED), 20.0).plots[1]
    at = {point.id: point for point in plot.points}
    assert at[2].y < at[1].y < at[0].y and at[0].x < at[1].x < at[2].x
    assert plot.rule_y is not None and at[1].y < plot.rule_y < at[0].y
    for point in plot.points:
        assert plot.left <= point.x <= plot.right and plot.top <= point.y <= plot.bottom
    assert plot.front.startswith(f"M{at[0].x} {at[0].y}") and f"V{at[2].y}" in plot.front
    assert f"V{at[3].y}" not in plot.front


def test_the_table_begins_with_what_was_taken_and_ends_with_what_was_not_measured() -> None:
    assert [row.id for row in pareto.plots(Search(TRIED), 20.0).rows] == [1, 2, 3, 0, 4]


def test_an_axis_that_fewer_than_two_know_is_left_out() -> None:
    view = pareto.view_of([Candidate(0, "a", 20.0, size_bytes=10), Candidate(1, "b", 21.0)], 20.0)
    assert view.plots == ()


def test_sizes_next_to_equal_are_drawn_next_to_each_other() -> None:
    pair = [Candidate(n, str(n), 20.0 + n, size_bytes=100_000 + n) for n in range(2)]
    first, second = pareto.view_of(pair, 20.0).plots[0].points
    assert abs(first.x - second.x) < 5
