"""Calibration of joint inference: both models over a user's samples, which takes minutes."""

from __future__ import annotations

import threading

from actors.process import actor, container
from app.kit.clock import now
from app.kit.queue.messages import Message

AGAIN_MS = 2000
room = threading.Lock()
"""One at a time in a process: its other threads may have other queues to look after."""


@actor(Message.CALIBRATE)
def calibrate(calibration_id: str) -> None:
    if not room.acquire(blocking=False):
        calibrate.send_with_options(kwargs={"calibration_id": calibration_id}, delay=AGAIN_MS)
        return
    try:
        container.calibrations.run(calibration_id, now=now())
    finally:
        room.release()
