"""What a plot gives to the chart that one can touch."""

from __future__ import annotations

import json

from app.kit.web.line_plot import time_plot


def test_the_values_of_all_lines_stand_over_one_row_of_places() -> None:
    series = {"a": [(-3.0, 1.0), (-1.0, None)], "b": [(-2.0, 0.5), (0.0, 0.25)]}
    plot = time_plot(series, top=1.0, times=100.0, ending="%")
    assert plot is not None
    data = json.loads(plot.data)
    assert data["x"] == [-3, -2, -1, 0]
    assert dict(zip(data["kinds"], data["y"], strict=True)) == {"a": [100, None, None, None], "b": [None, 50, None, 25]}
    assert (data["high"], data["ending"]) == (100, "%")


def test_a_short_plot_is_in_seconds_as_its_axis_is() -> None:
    plot = time_plot({"a": [(-0.5, 1.0), (0.0, 2.0)]}, marks=[(-0.25, "fps 5 → 10")])
    assert plot is not None and plot.in_seconds
    data = json.loads(plot.data)
    assert data["x"] == [-30, 0] and data["marks"] == [[-15, "fps 5 → 10"]]


def test_what_happened_before_the_first_value_is_not_marked() -> None:
    plot = time_plot({"a": [(-3.0, 1.0), (0.0, 2.0)]}, marks=[(-4.0, "before"), (-3.0, "at"), (0.1, "after")])
    assert plot is not None
    assert [mark.tip for mark in plot.marks] == ["at"]
    assert plot.marks[0].x == plot.left


def test_a_line_is_broken_where_reports_are_missing() -> None:
    points: list[tuple[float, float | None]] = [(at, 1.0) for at in (-10.0, -9.5, -9.0, -1.0, -0.5, 0.0)]
    regular, irregular = (time_plot({"a": points}, is_periodic=is_periodic) for is_periodic in (True, False))
    assert regular is not None and irregular is not None
    assert regular.lines[0].path.count("M") == 2
    assert json.loads(regular.data)["y"] == [[1, 1, 1, None, 1, 1, 1]]
    assert irregular.lines[0].path.count("M") == 1
