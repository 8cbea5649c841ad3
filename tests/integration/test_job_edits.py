"""What a user changes about jobs that there are: one of them, or many at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from app.bootstrap.container import Container
from app.conversion.model import Status
from app.kit.clock import now
from app.settings import Settings
from tests.harness.conversion_jobs import finished_job
from tests.harness.users import Within, within

LOCAL = "local"


@pytest.fixture
def web(settings: Settings) -> Iterator[Within]:
    with within(settings) as client:
        yield client


@pytest.fixture
def container(web: Within) -> Container:
    return web.app.state.container  # type: ignore[no-any-return]


def test_name_tags_and_notes_are_changed_and_the_rest_stays(web: Within, container: Container) -> None:
    job = finished_job(container, LOCAL, "old")
    answer = web.request("PATCH", f"/jobs/{job.job_id}", json={"name": " new ", "tags": ["a", "b"]})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["name"], answer.json()["tags"], answer.json()["notes"]) == ("new", ["a", "b"], "")
    web.request("PATCH", f"/jobs/{job.job_id}", json={"notes": "第一版"})
    read = web.get(f"/jobs/{job.job_id}").json()
    assert (read["name"], read["notes"], read["status"]) == ("new", "第一版", "COMPLETED")


@pytest.mark.parametrize(
    "body", [{"name": "x" * 201}, {"tags": [""]}, {"tags": ["t"] * 21}, {"notes": "x" * 10_001}, {"status": "FAILED"}]
)
def test_what_is_no_change_is_refused_and_nothing_is_changed(
    web: Within, container: Container, body: dict[str, object]
) -> None:
    job = finished_job(container, LOCAL, "old")
    assert web.request("PATCH", f"/jobs/{job.job_id}", json=body).status_code == 422
    assert web.get(f"/jobs/{job.job_id}").json()["updated_at"] == job.updated_at


def test_anothers_job_is_not_changed(web: Within, container: Container) -> None:
    job = finished_job(container, "somebody")
    assert web.request("PATCH", f"/jobs/{job.job_id}", json={"name": "mine"}).status_code == 404
    answer = web.post("/jobs/bulk", json={"verb": "delete", "job_ids": [job.job_id]}).json()
    assert [problem["code"] for problem in answer["problems"]] == ["JOB_NOT_FOUND"]
    assert container.store.get(job.job_id) is not None


def test_what_is_kept_does_not_expire(web: Within, container: Container) -> None:
    kept, other = finished_job(container, LOCAL), finished_job(container, LOCAL)
    assert web.request("PATCH", f"/jobs/{kept.job_id}", json={"keep": True}).json()["keep"] is True
    later = now() + timedelta(days=400)
    container.conversion.expiry.sweep(later)
    assert container.store.get(other.job_id) is None
    assert container.store.get(kept.job_id) is not None
    assert web.request("PATCH", f"/jobs/{kept.job_id}", json={"keep": False}).json()["keep"] is False
    container.conversion.expiry.sweep(later)
    assert container.store.get(kept.job_id) is None


def test_many_are_tagged_and_deleted_and_each_that_cannot_be_says_why(web: Within, container: Container) -> None:
    ended = [finished_job(container, LOCAL, minute=minute) for minute in range(2)]
    running = finished_job(container, LOCAL, minute=3, status=Status.NEF)
    ids = [job.job_id for job in (*ended, running)]
    body = {"verb": "tag", "job_ids": ids, "add_tags": ["night"], "remove_tags": ["day"]}
    assert web.post("/jobs/bulk", json=body).json() == {"done": ids, "problems": []}
    assert {tuple(job["tags"]) for job in web.get("/jobs").json()["jobs"]} == {("night",)}
    answer = web.post("/jobs/bulk", json={"verb": "delete", "job_ids": [*ids, ids[0]]}).json()
    assert answer["done"] == ids[:2]
    assert [(problem["job_id"], problem["code"]) for problem in answer["problems"]] == [(ids[2], "JOB_ACTIVE")]
    answer = web.post("/jobs/bulk", json={"verb": "tag", "job_ids": ids[2:], "add_tags": [f"t{i}" for i in range(20)]})
    assert [problem["code"] for problem in answer.json()["problems"]] == ["BAD_INPUT"], "it has one already"
