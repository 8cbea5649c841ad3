"""Prefect: background tasks, each of which delays the next."""

from __future__ import annotations

from job_status import note
from prefect import task


@task
def nef(job_id: str) -> None:
    note(job_id, "nef")


@task
def bie(job_id: str) -> None:
    note(job_id, "bie")
    nef.delay(job_id)


@task
def onnx(job_id: str) -> None:
    note(job_id, "onnx")
    bie.delay(job_id)


def submit(job_id: str) -> None:
    onnx.delay(job_id)
