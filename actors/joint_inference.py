"""The controllers of joint inference. Each may run twice, and for services that are gone."""

from __future__ import annotations

from typing import Any

import dramatiq
from periodiq import cron

from actors import parts
from app.kit.clock import now

QUEUE = "joint"


@dramatiq.actor(queue_name=QUEUE, max_retries=0)
def reconcile(uid: str) -> None:
    """The joint-inference and the downstream controller: condition of a service, and what its nodes are told."""
    parts.joint.controller.reconcile(uid, now=now())


@dramatiq.actor(queue_name=QUEUE, max_retries=0)
def upstream(uid: str, status: dict[str, Any]) -> None:
    """The upstream controller: what a worker reported is written down."""
    from app.joint_inference.service.task_info import Status

    parts.joint.reports.note(uid, Status.model_validate(status), now=now())


@dramatiq.actor(queue_name=QUEUE, max_retries=0, periodic=cron("23 * * * *"))
def forget_gone() -> None:
    """Services that went, once nobody needs to see any more that they did."""
    parts.joint.controller.forget_gone(now())
