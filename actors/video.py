"""The scheduler of video jobs, and their controller. Each may run twice, and for jobs that are gone."""

from __future__ import annotations

import dramatiq
from periodiq import cron

from actors import parts
from app.kit.clock import now

QUEUE, PLANS = "video", "video_plans"
LATER_MS = 20
"""So that the moment has come for certain."""


@dramatiq.actor(queue_name=PLANS, max_retries=0)
def plan_video(uid: str, why: str) -> None:
    """Ask the policy of a job for its next plan, and send that to its node. A plan that comes late is no plan any more:
    it is not tried again. What is asked for too soon after the last is done once, a little later."""
    wait_s = parts.video.planning.schedule(uid, why, now=now())
    if wait_s:
        plan_video.send_with_options(kwargs={"uid": uid, "why": why}, delay=int(wait_s * 1000) + LATER_MS)


@dramatiq.actor(queue_name=QUEUE, max_retries=0)
def reconcile_video(uid: str) -> None:
    """What the nodes are told of a job; without a uid, of the stages that they are to serve."""
    parts.video.controller.reconcile(uid, now=now())


@dramatiq.actor(queue_name=QUEUE, max_retries=0, periodic=cron("41 * * * *"))
def forget_old_video() -> None:
    """Jobs that ended long ago."""
    parts.video.controller.forget_old(now())
