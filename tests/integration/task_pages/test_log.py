"""The log of a task as a browser without scripts reads it."""

from __future__ import annotations

import html
import re

import httpx
import pytest

from app.training.model import Event
from tests.harness.deployment import Deployment
from tests.harness.page_text import polled, text_of
from tests.harness.training.tasks import begin, database_of
from tests.harness.users import Person


@pytest.fixture(scope="module")
def long_log(deployment: Deployment, erin: Person) -> str:
    with database_of(deployment) as database:
        builder = begin(deployment, database, erin.name, "long log", ago_s=600).run()
        builder.log("".join(f"line {n}\n" for n in range(1, 7001)))
    return builder.task.task_id


@pytest.mark.parametrize("tail", [200, 1000, 2000, 5000])
def test_the_log_shows_so_many_last_lines(web: httpx.Client, long_log: str, tail: int) -> None:
    page = web.get(f"/ui/tasks/{long_log}/logs", params={"tail": tail})
    shown = re.findall(r"line (\d+)", page.text)
    assert (shown[0], shown[-1], len(shown)) == (str(7001 - tail), "7000", tail)
    assert re.search(rf'aria-current="true">{tail}<', page.text)


def test_two_thousand_lines_are_the_usual_and_the_whole_is_a_download(web: httpx.Client, long_log: str) -> None:
    page = web.get(f"/ui/tasks/{long_log}/logs")
    assert len(re.findall(r"line \d+", page.text)) == 2000
    link = re.search(r'href="(/ui/data/download\?[^"]+)"', page.text)
    assert link is not None
    assert web.get(html.unescape(link[1])).text.count("line ") == 7000


def test_the_log_is_renewed_while_the_task_runs_unless_that_was_switched_off(
    web: httpx.Client, deployment: Deployment
) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "erin", "talks", ago_s=60).run().log("one\n")
        page = f"/ui/tasks/{builder.task.task_id}/logs"
        (again,) = polled(web.get(f"{page}?tail=200"))
        assert "tail=200" in again and web.get(again).status_code == 204
        still = web.get(f"{page}?refresh=off")
        assert polled(still) == [] and 'http-equiv="refresh"' not in still.text
        assert 'http-equiv="refresh"' in web.get(page).text
        builder.log("one\ntwo\n")
        renewed = web.get(again, headers={"HX-Request": "true"})
        assert "two" in renewed.text and polled(renewed) != []
        builder.after(5).end(Event.SUCCEED, "SUCCEEDED")
        assert polled(web.get(again, headers={"HX-Request": "true"})) == []


def test_a_log_keeps_the_colours_of_its_program(web: httpx.Client, deployment: Deployment) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "erin", "colourful", ago_s=60).run()
        builder.log("\x1b[36m(TaskRunner pid=7)\x1b[0m <step>\t1\x07\n")
    for page in (f"/ui/tasks/{builder.task.task_id}", f"/ui/tasks/{builder.task.task_id}/logs"):
        assert '<span class="ansi-6">(TaskRunner pid=7)</span> &lt;step&gt;\t1\n<' in web.get(page).text


def test_lines_are_looked_for_by_their_text_and_process(web: httpx.Client, deployment: Deployment) -> None:
    with database_of(deployment) as database:
        builder = begin(deployment, database, "erin", "many", ago_s=60).run()
        builder.log("[rank0]: begins\n[rank1]: begins\n[rank1]: ends\n")
    page = f"/ui/tasks/{builder.task.task_id}/logs"
    shown = web.get(page, params={"q": "begins", "process": "rank 1"})
    assert "[rank1]: <mark>begins</mark>\n<" in shown.text
    assert "[rank0]" not in shown.text and "rank1]: ends" not in shown.text
    (again,) = polled(shown)
    assert "q=begins&amp;process=rank+1" in shown.text or "q=begins&process=rank+1" in again
    assert "No such line" in text_of(web.get(page, params={"q": "nothing of this"}))
    answer = web.get(f"/api/v2/tasks/{builder.task.task_id}/logs", params={"q": "BEGINS", "process": "rank 0"})
    assert (answer.text, answer.headers["X-Log-Lines"]) == ("[rank0]: begins\n", "1")


def test_a_log_that_is_not_there_says_why(web: httpx.Client, deployment: Deployment, ids: dict[str, str]) -> None:
    assert "has not been submitted to Ray yet" in text_of(web.get(f"/ui/tasks/{ids['waiting']}/logs"))
    assert "has no log yet" in text_of(web.get(f"/ui/tasks/{ids['placement']}/logs"))
    with database_of(deployment) as database:
        builder = begin(deployment, database, "erin", "silent", ago_s=60).run().log("")
        assert "has not printed anything yet" in text_of(web.get(f"/ui/tasks/{builder.task.task_id}/logs"))
        builder.after(1).end(Event.SUCCEED, "SUCCEEDED")
        assert "ended without printing" in text_of(web.get(f"/ui/tasks/{builder.task.task_id}/logs"))


def test_the_log_of_an_earlier_attempt_is_chosen_by_a_link(web: httpx.Client, ids: dict[str, str]) -> None:
    assert "step 50" in text_of(web.get(f"/ui/tasks/{ids['retried']}/logs"))
    first = web.get(f"/ui/tasks/{ids['retried']}/logs?attempt=1")
    assert "Total available GPUs" in text_of(first) and "step 50" not in text_of(first)
    assert "There is no attempt 9" in text_of(web.get(f"/ui/tasks/{ids['retried']}/logs?attempt=9"))
