"""The controllers of joint inference. Each may run twice, and for services that are gone."""

from __future__ import annotations

from periodiq import cron

from actors.process import actor, container
from app.kit.clock import now
from app.kit.queue.messages import Message
from app.kit.text.json_values import JsonObject


@actor(Message.RECONCILE)
def reconcile(uid: str) -> None:
    """The joint-inference and the downstream controller: condition of a service, and what its nodes are told."""
    container.joint.controller.reconcile(uid, now=now())


@actor(Message.UPSTREAM)
def upstream(uid: str, status: JsonObject) -> None:
    """The upstream controller: what a worker reported is written down."""
    from app.joint_inference.service.task_info import UpstreamStatus

    container.joint.reports.note(uid, UpstreamStatus.model_validate(status), now=now())


@actor(Message.MEASURE_DRIFT, periodic=cron("* * * * *"))
def measure_drift() -> None:
    """How far what services see is from their references."""
    container.drift.measure_all(now())


@actor(Message.FORGET_GONE, periodic=cron("23 * * * *"))
def forget_gone() -> None:
    """Services that went, once nobody needs to see any more that they did."""
    container.joint.controller.forget_gone(now())
