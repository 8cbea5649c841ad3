"""The product, watched as a job page watches it."""

from __future__ import annotations

import time

from app.bootstrap.container import assemble
from app.settings import load_settings
from ops.benchmarks import load

WAIT_S = 60
container = assemble(load_settings())
watcher = load.Watcher(container)


def submit(job_id: str) -> None:
    load.submit(container, job_id=job_id)


def wait(job_ids: list[str]) -> None:
    if len(job_ids) == 1:
        watcher.wait(job_ids[0])
        return
    deadline = time.monotonic() + WAIT_S
    while container.redis.zcard(container.store.records.active_index):
        time.sleep(0.005)
        if time.monotonic() > deadline:
            raise SystemExit(f"the jobs did not come to their end within {WAIT_S} s")


def submit_many(job_ids: list[str]) -> None:
    watcher.check()
    watcher.changes.punsubscribe()  # of many jobs it is asked whether any is active; nobody reads 3,500 changes
    for job_id in job_ids:
        submit(job_id)
