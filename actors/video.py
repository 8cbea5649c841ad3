"""The scheduler of video jobs, and their controller. Each may run twice, and for jobs that are gone."""

from __future__ import annotations

import logging
import threading

from periodiq import cron

from actors.process import actor, container
from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.queue.messages import Message

LATER_MS = 20
"""So that the moment has come for certain."""
room = threading.Semaphore(2)
"""Of the threads of this process so many may wait for slow nodes."""
logger = logging.getLogger(__name__)


@actor(Message.PLAN_VIDEO)
def plan_video(uid: str, why: str) -> None:
    """Ask the policy of a job for its next plan, and send that to its node. A plan that comes late is no plan any more:
    it is not tried again. What is asked for too soon after the last is done once, a little later."""
    wait_s = container.video.planning.schedule(uid, why, now=now())
    if wait_s:
        plan_video.send_with_options(kwargs={"uid": uid, "why": why}, delay=int(wait_s * 1000) + LATER_MS)


@actor(Message.RECONCILE_VIDEO)
def reconcile_video(uid: str) -> None:
    """What the nodes are told of a job; without a uid, of the stages that they are to serve."""
    container.waker.begun(Message.RECONCILE_VIDEO, uid=uid)
    container.video.controller.reconcile(uid, now=now())


@actor(Message.KEEP_EVENT_CLIPS)
def keep_event_clips(uid: str) -> None:
    """The clips of the newest events of a recorded job. What is not fetched now is fetched after its next snapshot."""
    if not room.acquire(blocking=False):
        return
    try:
        container.video.clips.keep_of_events(uid, now=now())
    except ModelmillError as error:
        logger.warning("No clip of an event of %s is kept now: %s", uid, error.message)
    finally:
        room.release()


@actor(Message.FORGET_OLD_VIDEO, periodic=cron("41 * * * *"))
def forget_old_video() -> None:
    """Jobs that ended long ago."""
    container.video.controller.forget_old(now())
