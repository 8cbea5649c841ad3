"""Jobs without inputs, for measuring what lies between the stages, and how their end is heard of."""

from __future__ import annotations

import time
from uuid import uuid4

from app.bootstrap.container import Container
from app.conversion import model
from app.conversion.model import Stage, Status
from app.conversion.options import Options
from app.kit.clock import now, to_text
from app.kit.redis.records import CHANGES

OPTIONS = Options()
"""Of each job: a submission has checked them before."""
BIE_S = 1.0
"""How long a BIE stage of busy_actors takes."""


def burn(seconds: float) -> None:
    """Of this thread's CPU time: who is preempted takes the longer."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def submit(container: Container, *, owner: str = "bench", name: str = "", job_id: str = "") -> str:
    """Remember a job and queue its first stage in one step, as a submission does once its inputs are checked and kept.

    job_id: default random.
    """
    job_id, moment = job_id or str(uuid4()), now()
    record = model.submitted(
        job_id, now=to_text(moment), owner=owner, name=name, tags=(), options=OPTIONS, inputs={}, intake={}
    )
    message = container.conversion.dispatch.prepare(Stage.ONNX, job_id)
    container.store.create(record, score=moment.timestamp() * 1e6, message=message)
    return job_id


class Watcher:
    """Hears of a job's end as its page does, by a notification. How it ended is read when nothing is measured."""

    def __init__(self, container: Container) -> None:
        self.redis = container.redis
        self.records = container.store.records
        self.changes = container.redis.pubsub(ignore_subscribe_messages=True)
        self.changes.psubscribe(f"{CHANGES}*")
        self.ended: list[str] = []

    def wait(self, job_id: str, timeout_s: float = 60) -> None:
        key = self.records.key(job_id)
        channel, deadline = f"{CHANGES}{key}".encode(), time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            message = self.changes.get_message(timeout=1)
            if message is not None and message["channel"] == channel and message["data"] == b"ended":
                self.ended.append(key)
                return
        raise SystemExit(f"job {job_id} did not come to its end within {timeout_s:g} s")

    def check(self) -> None:
        """Exits if one of the jobs that were waited for did not come to a good end."""
        for key in self.ended:
            if self.redis.hget(key, "status") != Status.COMPLETED.encode():
                raise SystemExit(f"{key} was not completed")
