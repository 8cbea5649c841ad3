"""What is found of jobs that Redis has forgotten."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import uuid4

import pytest

from app.bootstrap.container import Container
from app.conversion import model, object_keys
from app.conversion.errors import ResultNotFound
from app.conversion.model import JobError, Stage
from app.conversion.options import Options
from app.conversion.store import BEGAN_AT
from app.kit.clock import now, to_text


def job(container: Container, owner: str = "alice", *, is_known: bool = False) -> str:
    """As a submission leaves it, and its last stage."""
    job_id, moment = str(uuid4()), to_text(now())
    submitted = {"owner": owner, "name": "n", "tags": [], "options": {}, "origin": "", "created_at": moment}
    container.objects.put(object_keys.request(job_id), [json.dumps(submitted).encode()])
    container.objects.put(object_keys.owned(owner, job_id), [])
    container.objects.put(object_keys.result(job_id, Stage.NEF), [b"nef"])
    if is_known:
        record = model.submitted(
            job_id, now=moment, owner=owner, name="n", tags=(), options=Options(), inputs={}, intake={}
        )
        container.store.create(record, score=1.0)
        container.store.apply(job_id, model.failed(Stage.ONNX, now=moment, error=JobError("onnx", "why")))
    return job_id


def test_only_what_has_no_record_is_forgotten(container: Container) -> None:
    job(container, is_known=True)
    lost = job(container)
    job(container, owner="alice/../bob")
    assert container.conversion.results.forgotten("alice") == [lost]


def test_what_came_after_the_reset_is_not_asked_for_again(container: Container) -> None:
    """Ten thousand jobs since then cost a list of them no question to Redis."""
    job(container)
    container.redis.set(BEGAN_AT, to_text(now() - timedelta(hours=1)))
    assert container.conversion.results.forgotten("alice") == []


def test_what_was_stored_before_a_reset_of_long_ago_has_expired(container: Container) -> None:
    job(container)
    container.redis.set(BEGAN_AT, to_text(now() - timedelta(seconds=container.settings.record_ttl_s + 1)))
    assert container.conversion.results.forgotten("alice") == []


def test_pages_follow_one_another(container: Container) -> None:
    made = {job(container) for _ in range(3)}
    first, cursor = container.conversion.results.page("alice", limit=2)
    second, end = container.conversion.results.page("alice", limit=2, after=cursor)
    assert end is None
    assert {result.job_id for result in (*first, *second)} == made and len(first) == 2


def test_a_name_that_is_none_and_anothers_are_refused_alike(container: Container) -> None:
    job_id = job(container)
    for name, owner in ((job_id, "bob"), (str(uuid4()), "bob"), ("../..", "alice")):
        with pytest.raises(ResultNotFound):
            container.conversion.results.file(name, "out.nef", owner)
    assert (
        b"".join(container.conversion.results.read(container.conversion.results.file(job_id, "out.nef", "alice")))
        == b"nef"
    )


def test_with_the_files_goes_the_sign_of_whose_they_were(container: Container) -> None:
    deleted, expired = job(container, is_known=True), job(container)
    container.conversion.jobs.delete(deleted, "alice")
    assert [info.key for info in container.objects.list(object_keys.OWNERS)] == [object_keys.owned("alice", expired)]
    container.conversion.expiry.sweep(now() + timedelta(seconds=container.settings.record_ttl_s + 1))
    assert list(container.objects.list(object_keys.OWNERS)) == []
    container.objects.put(object_keys.owned("alice", str(uuid4())), [])
    container.conversion.expiry.sweep(now() + timedelta(seconds=2 * container.settings.record_ttl_s + 1))
    assert list(container.objects.list(object_keys.OWNERS)) == []
