"""What a stage does, in every system but the product: note the job's status; the last one announces the end."""

from __future__ import annotations

import os

import redis

URL = os.environ["BENCH_REDIS_URL"]
STAGES = ("onnx", "bie", "nef")
FOLLOWING = dict(zip(STAGES, (*STAGES[1:], ""), strict=True))
FINISHED = "finished"
client = redis.Redis.from_url(URL, socket_timeout=None)  # its default would cut off a command that blocks


def note(job_id: str, stage: str) -> None:
    client.hset(f"job:{job_id}", "status", stage)
    if not FOLLOWING[stage]:
        client.rpush(FINISHED, job_id)
