"""Queues onnx, bie, nef: one stage each. A doubled message is refused by the claim on the record."""

from __future__ import annotations

from actors.process import actor, container, life
from app.kit.queue.messages import Message


@actor(Message.RUN_ONNX)
def run_onnx(job_id: str) -> None:
    container.stages.run(job_id, life.worker("onnx"))


@actor(Message.RUN_BIE)
def run_bie(job_id: str) -> None:
    container.stages.run(job_id, life.worker("bie"))


@actor(Message.RUN_NEF)
def run_nef(job_id: str) -> None:
    container.stages.run(job_id, life.worker("nef"))
