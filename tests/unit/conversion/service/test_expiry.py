from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from app.bootstrap.container import Container
from app.conversion import model, object_keys
from app.conversion.model import JobError, Stage, Status
from app.conversion.options import Options
from app.kit.clock import from_text, now, to_text


def job(container: Container, *, is_finished: bool) -> str:
    moment = to_text(now())
    record = model.submitted(
        str(uuid4()), now=moment, owner="local", name="", tags=(), options=Options(), inputs={}, intake={}
    )
    container.store.create(record, score=1.0)
    container.objects.put(object_keys.input_(record.job_id, object_keys.MODEL), [b"model"])
    if is_finished:
        container.store.apply(record.job_id, model.failed(Stage.ONNX, now=moment, error=JobError("onnx", "why")))
    return record.job_id


def files(container: Container, job_id: str) -> list[str]:
    return [info.key for info in container.objects.list(object_keys.job(job_id))]


def later(seconds: int) -> timedelta:
    return timedelta(seconds=seconds + 1)


def test_a_finished_job_goes_with_its_files_when_its_time_is_over(container: Container) -> None:
    job_id = job(container, is_finished=True)
    ttl_s = container.settings.record_ttl_s
    container.conversion.expiry.sweep(now() + timedelta(seconds=ttl_s - 60))
    assert files(container, job_id)
    container.conversion.expiry.sweep(now() + later(ttl_s))
    assert files(container, job_id) == []
    assert container.store.get(job_id) is None


def test_files_of_a_completed_job_stay_as_long_as_its_entry_in_the_archive(container: Container) -> None:
    running = container.store.get(job(container, is_finished=False))
    assert running is not None
    expiry, end = container.conversion.expiry, now()
    ended = replace(running, finished_at=to_text(end))
    assert expiry.ends_at(running) is None
    for status, stays in ((Status.FAILED, expiry.job_ttl), (Status.COMPLETED, expiry.archive_ttl)):
        assert expiry.ends_at(replace(ended, status=status)) == from_text(to_text(end)) + stays
    assert expiry.job_ttl < expiry.archive_ttl


def test_a_job_that_still_runs_keeps_its_files(container: Container) -> None:
    job_id = job(container, is_finished=False)
    container.conversion.expiry.sweep(now() + later(container.settings.record_ttl_s))
    assert files(container, job_id)


def test_files_whose_record_a_reset_has_forgotten_go_too(container: Container) -> None:
    job_id = job(container, is_finished=False)
    container.redis.flushall()
    container.conversion.expiry.sweep(now())
    assert files(container, job_id)
    container.conversion.expiry.sweep(now() + later(container.settings.record_ttl_s))
    assert files(container, job_id) == []


def test_an_upload_that_no_job_took_goes_after_a_day(container: Container) -> None:
    upload_id = container.conversion.uploads.begin("local")
    container.conversion.expiry.sweep(now())
    assert container.conversion.uploads.owner(upload_id) == "local"
    container.conversion.expiry.sweep(now() + later(container.settings.upload_ttl_s))
    assert list(container.objects.list("uploads/")) == []
