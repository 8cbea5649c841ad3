"""Celery: a chain of three tasks, each on the queue of its worker."""

from __future__ import annotations

from celery import Celery, chain
from job_status import STAGES, URL, note

app = Celery("bench", broker=URL)
app.conf.update(
    task_ignore_result=True,
    worker_disable_rate_limits=True,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)


@app.task
def stage(job_id: str, name: str) -> None:
    note(job_id, name)


def submit(job_id: str) -> None:
    chain(*(stage.si(job_id, name).set(queue=name) for name in STAGES)).apply_async()
