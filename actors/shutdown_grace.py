"""The shutdown of a worker: it takes no more work and finishes the current work, up to a limit.

Must precede ShutdownNotifications in the broker's list: that one interrupts whatever still runs after the grace period,
and the interrupted stage reports why it ended.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import dramatiq

LOOK_EVERY_S = 0.05
logger = logging.getLogger(__name__)


class ShutdownGrace(dramatiq.Middleware):
    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s

    def before_worker_shutdown(self, broker: Any, worker: dramatiq.Worker) -> None:
        broker.drain()
        time.sleep(LOOK_EVERY_S)
        broker.wake()  # who was just about to wait when it was told the first time
        for thread in worker.workers:
            thread.stop()
        logger.info("Taking no more work; what is in hand has %g s to end.", self.grace_s)
        deadline = time.monotonic() + self.grace_s
        while broker.is_busy and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
