"""The plots of what was tried."""

from __future__ import annotations

import re
from types import SimpleNamespace

from app.conversion.actions_api import CandidateAnswer
from app.conversion.pages import pareto
from app.conversion.service.quality.candidates import Candidate, Search, read_search
from app.conversion.service.quality.candidates import pareto as front_of
from app.conversion.service.quality.goal import StatedGoal
from app.kit.web.templates import environment

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


def test_the_table_shows_what_was_predicted_beside_what_was_measured() -> None:
    rows = ({"id": 0, "name": "int8", "snr_db": 19.0}, {"id": 1, "name": "int16", "snr_db": 22.4, "expected_db": 21.3})
    search = read_search({"search": {"candidates": rows}})
    assert search is not None
    source = """{% import "conversion/_numbers.html" as n with context %}{% include "conversion/_pareto.html" %}"""
    page = environment("en").from_string(source)
    text = page.render(pareto=pareto.plots(search, 20.0), exact_db=60, can_be_made=(), job=SimpleNamespace(job_id="j"))
    assert re.findall(r"<small[^>]*>expected <span[^>]*>(.*?)</span></small>", text) == ["21.3"]


def test_the_api_has_all_that_is_known_of_a_candidate() -> None:
    rows = [vars(Candidate(0, "int16", 22.4, expected_db=21.3)), {"is_on_front": True, "is_on_task_front": False}]
    answer = CandidateAnswer(**rows[0], **rows[1]).model_dump()
    assert answer == {**rows[0], **rows[1], "steps": [], "options": {}} and answer["expected_db"] == 21.3


def test_an_axis_that_fewer_than_two_know_is_left_out() -> None:
    view = pareto.view_of([Candidate(0, "a", 20.0, size_bytes=10), Candidate(1, "b", 21.0)], 20.0)
    assert view.plots == ()


def test_sizes_next_to_equal_are_drawn_next_to_each_other() -> None:
    pair = [Candidate(n, str(n), 20.0 + n, size_bytes=100_000 + n) for n in range(2)]
    first, second = pareto.view_of(pair, 20.0).plots[0].points
    assert abs(first.x - second.x) < 5


# --- by the loss of the task ----------------------------------------------------------------------------------
DROP = StatedGoal("drop<=1%", "drop", 1.0)
BY_TASK = (
    Candidate(0, "loud", 30.0, drop_percent=4.0, size_bytes=100 << 10, latency_ms=3.0, verdict_code="below_goal"),
    Candidate(1, "quiet", 18.0, drop_percent=0.5, size_bytes=100 << 10, latency_ms=3.1, is_taken=True),
    Candidate(2, "int16", 50.0, drop_percent=0.0, size_bytes=180 << 10, latency_ms=5.0, verdict_code="dearer"),
    Candidate(3, "task not measured", 60.0, size_bytes=90 << 10, latency_ms=1.0),
)


def test_the_front_by_the_task_is_another_than_the_one_by_snr_and_leaves_out_what_was_not_measured() -> None:
    assert {one.id for one in front_of(BY_TASK, "task")} == {0, 1, 2}
    assert {one.id for one in front_of(BY_TASK)} == {3}


def test_a_goal_of_the_task_shows_the_task_and_snr_on_demand_and_another_goal_the_other_way_round() -> None:
    view = pareto.plots(Search(BY_TASK), 20.0, DROP)
    assert (view.measure, view.measures) == ("task", ("task", "snr"))
    assert [row.id for row in view.rows] == [1, 2, 0, 3] and {point.id for point in view.plots[0].points} == {0, 1, 2}
    by_snr = pareto.plots(Search(BY_TASK), 20.0, DROP, "snr")
    assert by_snr.measure == "snr" and len(by_snr.plots[0].points) == 4 and by_snr.front == {3}
    assert pareto.plots(Search(BY_TASK), 20.0, StatedGoal("snr>=20", "snr", 20.0)).measures == ("snr", "task")


def test_less_loss_is_higher_and_the_line_is_what_the_goal_allows() -> None:
    plot = pareto.plots(Search(BY_TASK), 20.0, DROP).plots[0]
    at = {point.id: point for point in plot.points}
    assert plot.rule_y is not None and at[2].y < at[1].y < plot.rule_y < at[0].y
    assert next(tick.label for tick in plot.y_ticks) == "0" and at[2].drop_percent == 0.0
    assert pareto.plots(Search(BY_TASK), 20.0, StatedGoal("smallest", "smallest"), "task").plots[0].rule_y is None


def test_without_a_measured_task_there_is_nothing_to_switch() -> None:
    view = pareto.plots(Search(TRIED), 20.0, DROP, "task")
    assert (view.measure, view.measures) == ("snr", ("snr",))


def test_each_point_says_why_it_was_not_chosen() -> None:
    points = pareto.plots(Search(BY_TASK), 20.0, DROP).plots[0].points
    assert {point.id: point.verdict_code for point in points} == {0: "below_goal", 1: "", 2: "dearer"}
