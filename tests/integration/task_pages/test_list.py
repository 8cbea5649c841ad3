"""The list of tasks as a browser without scripts uses it."""

from __future__ import annotations

import html
import re
from datetime import datetime, timedelta

import httpx
import pytest

from app.kit.clock import now, to_text
from app.training import store
from app.training.model import Event, Workload
from app.training.pages.view_models import short
from tests.harness.deployment import Deployment
from tests.harness.page_text import polled, rows, text_of
from tests.harness.training import tasks as task_scenes
from tests.harness.training.tasks import begin, database_of, show_cluster
from tests.harness.users import person


def test_the_list_is_newest_first_and_says_why_tasks_wait(web: httpx.Client, ids: dict[str, str]) -> None:
    pages = [web.get("/ui/tasks")]
    while older := re.search(r'href="(/ui/tasks\?[^"]*cursor=[^"]+)"', pages[-1].text):
        pages.append(web.get(html.unescape(older[1])))
    known = [task_id for page in pages for task_id in rows(page) if task_id in ids.values()]
    assert sorted(known) == sorted(ids.values()) and known[0] == ids["queued"]
    text = " ".join(map(text_of, pages))
    assert "12 GPUs are free, but not together: 2 nodes with 8 each are needed" in text
    assert "1 task comes first" in text and "It needs 64 GPUs, and the whole cluster has 16" in text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("workload=grpo", {"placement"}),
        ("state=FAILED", {"failed"}),
        ("state=unended", {"retried", "placement", "canceling", "waiting", "behind", "too big", "queued"}),
        ("q=race", {"retried"}),
        ("q=%E4%B8%AD%E6%96%87", {"queued"}),
        ("workload=sft&state=SUCCEEDED&q=digits", {"succeeded"}),
        ("workload=sft&state=RUNNING", set()),
    ],
)
def test_filters_narrow_the_list(web: httpx.Client, ids: dict[str, str], query: str, expected: set[str]) -> None:
    shown = set(rows(web.get(f"/ui/tasks?{query}")))
    assert {name for name, task_id in ids.items() if task_id in shown} == expected


def test_both_days_of_a_time_range_are_included(web: httpx.Client, ids: dict[str, str]) -> None:
    day = datetime.strptime(ids["succeeded"].split("-")[3], "%Y%m%d").date()  # its id says when it was made
    assert rows(web.get(f"/ui/tasks?since={day}&until={day}")) == [ids["succeeded"]]
    later = day + timedelta(days=1)
    assert ids["succeeded"] not in rows(web.get(f"/ui/tasks?since={later}"))
    assert web.get("/ui/tasks?since=yesterday").status_code == 422
    assert web.get("/ui/tasks?until=9999-12-31").status_code == 200, "there is no later day"


def test_the_list_is_asked_for_again_only_while_something_in_it_goes_on(
    web: httpx.Client, deployment: Deployment, ids: dict[str, str]
) -> None:
    assert polled(web.get("/ui/tasks?state=FAILED")) == []
    (again,) = polled(web.get("/ui/tasks?q=being+stopped"))
    assert web.get(again).status_code == 204
    with database_of(deployment) as database, database.write() as conn:
        task = store.get_task(conn, ids["canceling"])
        assert task is not None
        store.change(conn, task, to_text(now()), error_summary="it changed")
    renewed = web.get(again, headers={"HX-Request": "true"})
    assert renewed.status_code == 200 and rows(renewed) == [ids["canceling"]] and polled(renewed)


def test_a_long_list_is_gone_through_by_links_and_keeps_its_filters(finn: httpx.Client, deployment: Deployment) -> None:
    with database_of(deployment) as database:
        made = [begin(deployment, database, "finn", f"finns {n}", ago_s=9000 - n).task.task_id for n in range(103)]
    url, seen, pages = "/ui/tasks?q=finns", [], 0
    while url:
        page = finn.get(url)
        seen += rows(page)
        match = re.search(r'rel="next" href="([^"]+)"', page.text)
        url, pages = html.unescape(match[1]) if match else "", pages + 1
        assert "q=finns" in url or not url
    assert pages == 3 and seen == made[::-1]


def test_who_has_no_task_is_told_what_to_do(deployment: Deployment) -> None:
    with person(deployment, "newcomer").browser() as client:
        page = client.get("/ui/tasks")
        demonstrations = client.get("/ui/demonstrations")
    assert "Nothing has been trained yet" in text_of(page) and 'href="/ui/tasks/new"' in page.text
    assert all('action="/ui/tasks/demonstration?once=' in one.text for one in (page, demonstrations))


def test_a_cluster_that_does_not_answer_is_told_on_every_page(
    web: httpx.Client, deployment: Deployment, ids: dict[str, str]
) -> None:
    away = {"unreachable_since": "2026-11-20T10:20:30.000Z", "problem": "Ray does not accept our token."}
    show_cluster(deployment, task_scenes.cluster("erin", ids, **away))
    for path in ("/ui/tasks", f"/ui/tasks/{ids['waiting']}", "/ui/cluster"):
        shown = text_of(web.get(path))
        assert "Ray is unreachable since 2026-11-20 10:20:30 UTC" in shown, path
        assert "Ray does not accept our token." in shown, path
    assert "unreachable" not in text_of(web.get(f"/ui/tasks/{ids['failed']}"))
    show_cluster(deployment, None)
    for path in ("/ui/tasks", f"/ui/tasks/{ids['waiting']}", "/ui/cluster"):
        assert "No scheduler is running right now" in text_of(web.get(path)), path


def test_a_task_without_a_name_is_called_by_its_kind_and_a_short_id_and_its_cpus_are_counted(
    finn: httpx.Client, deployment: Deployment
) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "finn", "", ago_s=9, workload=Workload.SCRIPT, gpus=0)
        builder.do(Event.ADMIT, detail={"ahead_of": 2}, latest_attempt_no=1)
    task_id = builder.task.task_id
    listed, page = finn.get("/ui/tasks").text, finn.get(f"/ui/tasks/{task_id}")
    (title,) = re.findall(rf'class="task-link" href="/ui/tasks/{task_id}">([^<]+)</a>', listed)
    assert title.endswith(short(task_id)) and task_id not in title
    assert "1 CPU<" in listed and "1 CPU<" in page.text
    assert "ahead of 2 tasks that wait for what this one does not need" in text_of(page)
