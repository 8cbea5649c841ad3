"""Queues onnx, bie, nef: one stage each. A doubled message is refused by the claim on the record."""

from __future__ import annotations

import dramatiq

from actors import life, parts


@dramatiq.actor(queue_name="onnx", max_retries=0)
def run_onnx(job_id: str) -> None:
    parts.stages.run(job_id, life.worker("onnx"))


@dramatiq.actor(queue_name="bie", max_retries=0)
def run_bie(job_id: str) -> None:
    parts.stages.run(job_id, life.worker("bie"))


@dramatiq.actor(queue_name="nef", max_retries=0)
def run_nef(job_id: str) -> None:
    parts.stages.run(job_id, life.worker("nef"))
