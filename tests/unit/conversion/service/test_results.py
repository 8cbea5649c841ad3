"""What is found of jobs that Redis has forgotten."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import uuid4

import pytest

from app.conversion import keys, model
from app.conversion.errors import ResultNotFound
from app.conversion.model import JobError, Stage
from app.conversion.options import Options
from app.conversion.store import BEGAN_AT
from app.kit.clock import now, to_text
from app.wiring import Parts


def job(parts: Parts, owner: str = "alice", *, is_known: bool = False) -> str:
    """As a submission leaves it, and its last stage."""
    job_id, moment = str(uuid4()), to_text(now())
    asked = {"owner": owner, "name": "n", "tags": [], "options": {}, "origin": "", "created_at": moment}
    parts.objects.put(keys.request(job_id), [json.dumps(asked).encode()])
    parts.objects.put(keys.owned(owner, job_id), [])
    parts.objects.put(keys.result(job_id, Stage.NEF), [b"nef"])
    if is_known:
        record = model.submitted(
            job_id, now=moment, owner=owner, name="n", tags=(), options=Options(), inputs={}, intake={}
        )
        parts.store.create(record, score=1.0)
        parts.store.apply(job_id, model.failed(Stage.ONNX, now=moment, error=JobError("onnx", "why")))
    return job_id


def test_only_what_has_no_record_is_forgotten(parts: Parts) -> None:
    job(parts, is_known=True)
    lost = job(parts)
    job(parts, owner="alice/../bob")
    assert parts.conversion.results.forgotten("alice") == [lost]


def test_what_came_after_the_reset_is_not_asked_for_again(parts: Parts) -> None:
    """Ten thousand jobs since then cost a list of them no question to Redis."""
    job(parts)
    parts.redis.set(BEGAN_AT, to_text(now() - timedelta(hours=1)))
    assert parts.conversion.results.forgotten("alice") == []


def test_what_was_stored_before_a_reset_of_long_ago_has_expired(parts: Parts) -> None:
    job(parts)
    parts.redis.set(BEGAN_AT, to_text(now() - timedelta(seconds=parts.settings.record_ttl_s + 1)))
    assert parts.conversion.results.forgotten("alice") == []


def test_pages_follow_one_another(parts: Parts) -> None:
    made = {job(parts) for _ in range(3)}
    first, cursor = parts.conversion.results.page("alice", limit=2)
    second, end = parts.conversion.results.page("alice", limit=2, after=cursor)
    assert end is None
    assert {found.job_id for found in (*first, *second)} == made and len(first) == 2


def test_a_name_that_is_none_and_anothers_are_refused_alike(parts: Parts) -> None:
    job_id = job(parts)
    for asked, owner in ((job_id, "bob"), (str(uuid4()), "bob"), ("../..", "alice")):
        with pytest.raises(ResultNotFound):
            parts.conversion.results.file(asked, "out.nef", owner)
    assert b"".join(parts.conversion.results.read(parts.conversion.results.file(job_id, "out.nef", "alice"))) == b"nef"


def test_with_the_files_goes_the_sign_of_whose_they_were(parts: Parts) -> None:
    deleted, expired = job(parts, is_known=True), job(parts)
    parts.conversion.jobs.delete(deleted, "alice")
    assert [info.key for info in parts.objects.list(keys.OWNERS)] == [keys.owned("alice", expired)]
    parts.conversion.expiry.sweep(now() + timedelta(seconds=parts.settings.record_ttl_s + 1))
    assert list(parts.objects.list(keys.OWNERS)) == []
    parts.objects.put(keys.owned("alice", str(uuid4())), [])
    parts.conversion.expiry.sweep(now() + timedelta(seconds=2 * parts.settings.record_ttl_s + 1))
    assert list(parts.objects.list(keys.OWNERS)) == []
