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


def job(parts: Container, owner: str = "alice", *, is_known: bool = False) -> str:
    """As a submission leaves it, and its last stage."""
    job_id, moment = str(uuid4()), to_text(now())
    asked = {"owner": owner, "name": "n", "tags": [], "options": {}, "origin": "", "created_at": moment}
    parts.objects.put(object_keys.request(job_id), [json.dumps(asked).encode()])
    parts.objects.put(object_keys.owned(owner, job_id), [])
    parts.objects.put(object_keys.result(job_id, Stage.NEF), [b"nef"])
    if is_known:
        record = model.submitted(
            job_id, now=moment, owner=owner, name="n", tags=(), options=Options(), inputs={}, intake={}
        )
        parts.store.create(record, score=1.0)
        parts.store.apply(job_id, model.failed(Stage.ONNX, now=moment, error=JobError("onnx", "why")))
    return job_id


def test_only_what_has_no_record_is_forgotten(parts: Container) -> None:
    job(parts, is_known=True)
    lost = job(parts)
    job(parts, owner="alice/../bob")
    assert parts.conversion.results.forgotten("alice") == [lost]


def test_what_came_after_the_reset_is_not_asked_for_again(parts: Container) -> None:
    """Ten thousand jobs since then cost a list of them no question to Redis."""
    job(parts)
    parts.redis.set(BEGAN_AT, to_text(now() - timedelta(hours=1)))
    assert parts.conversion.results.forgotten("alice") == []


def test_what_was_stored_before_a_reset_of_long_ago_has_expired(parts: Container) -> None:
    job(parts)
    parts.redis.set(BEGAN_AT, to_text(now() - timedelta(seconds=parts.settings.record_ttl_s + 1)))
    assert parts.conversion.results.forgotten("alice") == []


def test_pages_follow_one_another(parts: Container) -> None:
    made = {job(parts) for _ in range(3)}
    first, cursor = parts.conversion.results.page("alice", limit=2)
    second, end = parts.conversion.results.page("alice", limit=2, after=cursor)
    assert end is None
    assert {found.job_id for found in (*first, *second)} == made and len(first) == 2


def test_a_name_that_is_none_and_anothers_are_refused_alike(parts: Container) -> None:
    job_id = job(parts)
    for asked, owner in ((job_id, "bob"), (str(uuid4()), "bob"), ("../..", "alice")):
        with pytest.raises(ResultNotFound):
            parts.conversion.results.file(asked, "out.nef", owner)
    assert b"".join(parts.conversion.results.read(parts.conversion.results.file(job_id, "out.nef", "alice"))) == b"nef"


def test_with_the_files_goes_the_sign_of_whose_they_were(parts: Container) -> None:
    deleted, expired = job(parts, is_known=True), job(parts)
    parts.conversion.jobs.delete(deleted, "alice")
    assert [info.key for info in parts.objects.list(object_keys.OWNERS)] == [object_keys.owned("alice", expired)]
    parts.conversion.expiry.sweep(now() + timedelta(seconds=parts.settings.record_ttl_s + 1))
    assert list(parts.objects.list(object_keys.OWNERS)) == []
    parts.objects.put(object_keys.owned("alice", str(uuid4())), [])
    parts.conversion.expiry.sweep(now() + timedelta(seconds=2 * parts.settings.record_ttl_s + 1))
    assert list(parts.objects.list(object_keys.OWNERS)) == []
