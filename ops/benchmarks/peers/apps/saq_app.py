"""SAQ: each stage enqueues the next, all on one event loop per process."""

from __future__ import annotations

import asyncio
from typing import Any

import redis.asyncio
from job_status import FINISHED, FOLLOWING, STAGES, URL
from saq import Queue

queues = {name: Queue.from_url(URL, name=name) for name in STAGES}
notes = redis.asyncio.Redis.from_url(URL)
loop = asyncio.new_event_loop()


async def stage(_: Any, *, job_id: str, name: str) -> None:
    await notes.hset(f"job:{job_id}", "status", name)
    if FOLLOWING[name]:
        await queues[FOLLOWING[name]].enqueue("stage", job_id=job_id, name=FOLLOWING[name])
    else:
        await notes.rpush(FINISHED, job_id)


onnx, bie, nef = ({"queue": queue, "functions": [stage], "concurrency": 1} for queue in queues.values())


def submit(job_id: str) -> None:
    loop.run_until_complete(queues["onnx"].enqueue("stage", job_id=job_id, name="onnx"))


def submit_many(job_ids: list[str]) -> None:
    async def enqueue() -> None:
        for job_id in job_ids:
            await queues["onnx"].enqueue("stage", job_id=job_id, name="onnx")

    loop.run_until_complete(enqueue())
