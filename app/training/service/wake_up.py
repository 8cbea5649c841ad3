"""The list in Redis on which the scheduler's leader waits between two looks."""

from __future__ import annotations

import redis

KEY = "training:kick"


def wait_for_wake_up(client: redis.Redis, timeout_s: float) -> bool:
    """Returns whether it was woken; timeout_s must be shorter than the client's socket_timeout."""
    return client.blpop([KEY], timeout=timeout_s) is not None
