"""Raw Redis lists; the workers are ops/benchmarks/raw_hops.py."""

from __future__ import annotations

from job_status import client


def submit(job_id: str) -> None:
    client.rpush("raw:onnx", job_id)


def wait(job_ids: list[str]) -> None:
    for _ in job_ids:
        if client.blpop(["raw:finished"], timeout=60) is None:
            raise SystemExit("a job did not come to its end within 60 s")
