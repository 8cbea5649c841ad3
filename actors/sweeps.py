"""Jobs of sweeps, submitted as there is room. It copies and checks: its queue is its own. May run twice."""

from __future__ import annotations

import logging
import threading

from periodiq import cron

from actors.process import actor, container
from app.kit.errors import ModelmillError
from app.kit.queue.messages import Message

room = threading.Lock()
logger = logging.getLogger(__name__)


@actor(Message.SUBMIT_SWEEPS, periodic=cron("* * * * *"))
def submit_sweeps() -> None:
    """What has no room now is submitted at a later pulse."""
    if not room.acquire(blocking=False):
        return  # who is at it looks once more before it ends
    try:
        while container.sweeps.submit_pending():
            pass
    except ModelmillError as error:
        logger.warning("No job of a sweep is submitted now: %s", error.message)
    finally:
        room.release()
