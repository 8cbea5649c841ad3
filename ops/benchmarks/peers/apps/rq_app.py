"""RQ: each stage enqueues the next."""

from __future__ import annotations

from job_status import FOLLOWING, STAGES, client, note
from rq import Queue

queues = {name: Queue(name, connection=client) for name in STAGES}


def stage(job_id: str, name: str) -> None:
    note(job_id, name)
    if FOLLOWING[name]:
        submit(job_id, FOLLOWING[name])


def submit(job_id: str, name: str = STAGES[0]) -> None:
    queues[name].enqueue(stage, job_id, name, result_ttl=0)
