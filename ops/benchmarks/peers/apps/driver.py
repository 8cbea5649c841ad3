"""The client of one system, in that system's environment: `python driver.py APP`. Orders in, figures out, in JSON.

An order is {"one_by_one": count, "pause_s": seconds} → milliseconds of each, or {"at_once": count} → seconds in all.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any
from uuid import uuid4


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the system prints
    app = importlib.import_module(sys.argv[1])
    for line in sys.stdin:
        order = json.loads(line)
        if "at_once" in order:
            times: Any = _at_once(app, order["at_once"])
        else:
            times = [_one(app, order["pause_s"]) for _ in range(order["one_by_one"])]
        print(json.dumps(times), file=answers)


def _one(app: Any, pause_s: float) -> float:
    time.sleep(pause_s)
    job_ids = [str(uuid4())]
    started = time.perf_counter()
    app.submit(job_ids[0])
    getattr(app, "wait", _wait)(job_ids)
    return (time.perf_counter() - started) * 1000


def _at_once(app: Any, count: int) -> float:
    job_ids = [str(uuid4()) for _ in range(count)]
    started = time.perf_counter()
    if hasattr(app, "submit_many"):
        app.submit_many(job_ids)
    else:
        for job_id in job_ids:
            app.submit(job_id)
    getattr(app, "wait", _wait)(job_ids)
    return time.perf_counter() - started


def _wait(job_ids: list[str]) -> None:
    import job_status

    for _ in job_ids:
        if job_status.client.blpop([job_status.FINISHED], timeout=60) is None:
            raise SystemExit("a job did not come to its end within 60 s")


if __name__ == "__main__":
    main()
