"""The rows that a job answered: kept as they are reported, looked through and downloaded by page and API."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.bootstrap.container import Container
from app.kit.clock import to_text
from app.results.model.frame_result import ResultFilter
from app.video.model.job import VideoJob
from app.video.service.producers import producer_of_job
from tests.harness.users import Within
from tests.harness.video.environments import container, env, web
from tests.harness.video.nodes import Env
from tests.harness.video.records import result

__all__ = ["container", "env", "web"]
BEGIN = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


@pytest.fixture
def job(env: Env) -> VideoJob:
    """With twelve rows: people in every third, cars in every fourth."""
    made = env.running()
    take(env, made.uid, 1, [row(n) for n in range(1, 13)])
    return made


def row(n: int) -> dict[str, Any]:
    names = [name for name, every in (("person", 3), ("car", 4)) if n % every == 0]
    boxes, scores = [[1.0, 2.0, 30.0, 40.0] for _ in names], [0.9 if name == "car" else 0.4 for name in names]
    return {**result(n), "at": BEGIN.timestamp() + n, "bbox": boxes, "labels": names, "scores": scores}


def take(env: Env, uid: str, seq: int, rows: list[dict[str, Any]]) -> None:
    report: Any = {"job_uid": uid, "seq": seq, "results": rows}
    env.reports.take(report, node="edge0", user="", now=env.now)


def test_rows_stay_when_the_newest_ten_have_gone_on(env: Env, container: Container, job: VideoJob) -> None:
    take(env, job.uid, 1, [row(99)])  # the same report again
    take(env, job.uid, 2, [row(n) for n in range(11, 40)])
    page = container.results.rows.page(producer_of_job(job), ResultFilter(), limit=1000)
    assert [one.n_loop for one in page.records] == list(range(1, 40))
    assert page.cursor is None
    assert page.records[0].at == to_text(BEGIN + timedelta(seconds=1)), "by the clock of the node"


def test_pages_follow_each_other_also_where_a_score_is_asked_for(container: Container, job: VideoJob) -> None:
    results, chosen = container.results.rows, ResultFilter(min_score=0.8)
    first = results.page(producer_of_job(job), chosen, limit=2)
    second = results.page(producer_of_job(job), chosen, cursor=first.cursor, limit=2)
    assert [one.n_loop for one in [*first.records, *second.records]] == [4, 8, 12]
    assert second.cursor is None
    newest = results.page(producer_of_job(job), ResultFilter(label="person"), newest_first=True, limit=3)
    assert [one.n_loop for one in newest.records] == [12, 9, 6]


def test_old_rows_are_swept(env: Env, container: Container, job: VideoJob) -> None:
    results = container.results.rows
    assert results.forget_old(env.now) == 0
    assert results.forget_old(env.now + timedelta(days=400)) == 12
    assert results.page(producer_of_job(job), ResultFilter(), limit=10).records == []


def test_a_row_without_a_time_has_that_of_its_report(env: Env, container: Container) -> None:
    made = env.running()
    take(env, made.uid, 1, [result(1), {**result(2), "at": 1e300}])
    kept = container.results.rows.page(producer_of_job(made), ResultFilter(), limit=10).records
    assert [one.at for one in kept] == [to_text(env.now)] * 2


def test_programs_get_rows_by_pages_and_whole(web: Within, job: VideoJob) -> None:
    place = f"/api/v2/video/jobs/{job.uid}/rows"
    page = web.get(place, params={"label": "car", "limit": 2}).json()
    assert [one["n_loop"] for one in page["rows"]] == [4, 8]
    rest = web.get(place, params={"label": "car", "limit": 2, "cursor": page["next_cursor"]}).json()
    assert [one["n_loop"] for one in rest["rows"]] == [12]
    lines = web.get(f"{place}.csv", params={"label": "person"}).text.splitlines()
    assert lines[0].startswith("frame,at,pts_s,tracked,counts,class,score,x1")
    assert [line.split(",")[0] for line in lines[1:]] == ["3", "6", "9", "12", "12"], "a line an object"
    text = web.get(f"{place}.jsonl").text
    assert [json.loads(line)["n_loop"] for line in text.splitlines()] == list(range(1, 13))
    assert web.get(place, params={"min_score": 2}).status_code == 422


def test_the_page_shows_the_newest_filters_and_offers_the_same_as_a_file(web: Within, job: VideoJob) -> None:
    page = web.get(f"/ui/video/{job.uid}/results", params={"label": "car", "since": "", "until": "", "min_score": ""})
    assert page.status_code == 200
    assert page.text.count("<tr>") == 1 + 3
    assert "/rows.csv?label=car" in page.text
    assert "Objects over time" in page.text
    nothing = web.get(f"/ui/video/{job.uid}/results", params={"label": "dog"})
    assert "Nothing matches." in nothing.text


def test_the_page_says_what_is_wrong_with_a_filter(web: Within, job: VideoJob) -> None:
    page = web.get(f"/ui/video/{job.uid}/results", params={"since": "yesterday"})
    assert page.status_code == 422
    assert 'role="alert"' in page.text
