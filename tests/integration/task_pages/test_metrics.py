"""The learning curves of a task as a browser without scripts reads them, and as programs ask for them."""

from __future__ import annotations

import json

import httpx
import pytest

from app.training.model import Event
from tests.harness.deployment import Deployment
from tests.harness.page_text import polled, text_of
from tests.harness.training.tasks import TaskBuilder, begin, database_of


def rows(first: int, last: int) -> str:
    figures = ({"actor/lr": 1e-6, "train/loss": 3 / step, "timing_s/step": 2.0} for step in range(first, last + 1))
    return "".join(json.dumps({"step": step, "data": data}) + "\n" for step, data in enumerate(figures, first))


@pytest.fixture
def builder(deployment: Deployment) -> TaskBuilder:
    with database_of(deployment) as database:
        return begin(deployment, database, "erin", "learns", ago_s=600).run()


def metrics_page(builder: TaskBuilder) -> str:
    return f"/ui/tasks/{builder.task.task_id}/metrics"


def test_the_page_says_what_to_do_while_there_are_no_metrics(web: httpx.Client, builder: TaskBuilder) -> None:
    shown = text_of(web.get(metrics_page(builder)))
    assert "No metrics yet" in shown
    assert "MODELMILL_METRICS_FILE" in shown


def test_curves_come_as_the_program_tells_them(web: httpx.Client, builder: TaskBuilder) -> None:
    builder.leave("metrics.jsonl", rows(1, 1).encode())
    first = web.get(metrics_page(builder))
    assert "One value so far." in text_of(first) and '<svg class="plot"' not in first.text
    builder.leave("metrics.jsonl", rows(1, 5).encode())
    page = web.get(metrics_page(builder))
    assert "best 0.6 at step 5" in text_of(page) and "One value so far." not in text_of(page)
    (again,) = polled(page)
    assert web.get(again).status_code == 204
    builder.leave("metrics.jsonl", rows(1, 6).encode())
    renewed = web.get(again, headers={"HX-Request": "true"})
    assert "best 0.5 at step 6" in text_of(renewed)
    assert 'd="M' in page.text and 'd="M' not in renewed.text, "the script of the page draws the lines"


def test_curves_are_drawn_over_time_smoothed_and_beside_another_task(
    web: httpx.Client, builder: TaskBuilder, deployment: Deployment
) -> None:
    builder.leave("metrics.jsonl", rows(1, 5).encode())
    with database_of(deployment) as database:
        other = begin(deployment, database, "erin", "learned before", ago_s=900, nodes=2).run()
        other.leave("metrics.jsonl", rows(1, 9).encode())
    page = web.get(f"{metrics_page(builder)}?x=time&smooth=0.6&also={other.task.task_id}")
    assert "line-task-1" in page.text
    assert "nnodes 1 2" in text_of(page) or "nnodes – 2" in text_of(page)
    assert "learned before" in text_of(page)
    assert "seconds" in text_of(page)


def test_programs_get_the_series_thinned_and_all_of_it_as_csv(web: httpx.Client, builder: TaskBuilder) -> None:
    builder.leave("metrics.jsonl", rows(1, 50).encode() + b"no row\n")
    path = f"/api/v2/tasks/{builder.task.task_id}/metrics"
    answer = web.get(path, params={"name": "train/loss", "points": 10}).json()
    assert answer["names"] == ["actor/lr", "timing_s/step", "train/loss"]
    assert (answer["rows"], answer["unreadable"]) == (50, 1)
    (series,) = answer["series"]
    assert (series["count"], series["best"]) == (50, {"step": 50.0, "value": 0.06})
    assert len(series["steps"]) <= 10
    lines = web.get(f"{path}.csv").text.splitlines()
    assert lines[0] == "metric,step,time_s,value"
    assert len(lines) == 1 + 3 * 50


def test_an_ended_task_is_asked_for_no_more(web: httpx.Client, builder: TaskBuilder) -> None:
    builder.leave("metrics.jsonl", rows(1, 5).encode())
    builder.after(5).end(Event.SUCCEED, "SUCCEEDED")
    assert polled(web.get(metrics_page(builder))) == []
