"""Jobs without inputs, for measuring what lies between the stages, and how their end is heard of."""

from __future__ import annotations

import time
from uuid import uuid4

from app.conversion import model
from app.conversion.model import Stage, Status
from app.conversion.options import Options
from app.kit.clock import now, to_text
from app.kit.records import NUDGES
from app.wiring import Parts

BIE_S = 1.0
"""How long a BIE stage of busy_actors takes."""


def submit(parts: Parts, *, owner: str = "bench", name: str = "", job_id: str = "") -> str:
    """Remember a job and queue its first stage in one step, as a submission does once its inputs are checked and kept.

    job_id: default random.
    """
    job_id, moment = job_id or str(uuid4()), now()
    record = model.submitted(
        job_id, now=to_text(moment), owner=owner, name=name, tags=(), options=Options(), inputs={}, intake={}
    )
    letter = parts.conversion.dispatch.letter(Stage.ONNX, job_id)
    parts.store.create(record, score=moment.timestamp() * 1e6, letter=letter)
    return job_id


class Watcher:
    """Hears of a job's end as its page does: by a nudge, after which it reads the status.

    It has learned how many nudges a job makes and does not ask before the last: what watches costs CPU as well, and a
    client of bare lists hears of one thing only.
    """

    def __init__(self, parts: Parts) -> None:
        self.redis = parts.redis
        self.records = parts.store.records
        self.nudges = parts.redis.pubsub(ignore_subscribe_messages=True)
        self.nudges.psubscribe(f"{NUDGES}*")
        self.usual = 1

    def wait(self, job_id: str, timeout_s: float = 60) -> None:
        key = self.records.key(job_id)
        channel, heard, deadline = f"{NUDGES}{key}".encode(), 0, time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            message = self.nudges.get_message(timeout=1)
            heard += message is not None and message["channel"] == channel
            if message is not None and heard < self.usual:
                continue
            if self.redis.hget(key, "status") == Status.COMPLETED.encode():
                self.usual = max(self.usual, heard)
                return
        raise SystemExit(f"job {job_id} did not come to its end within {timeout_s:g} s")
