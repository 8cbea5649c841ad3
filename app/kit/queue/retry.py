"""Handles servers that do not answer: a call that a job depends on is repeated until Redis has answered, and periodic
work waits for its next pulse.

Repeating such a call must be harmless, because the answer may be lost after the operation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import redis

from app.kit.errors import Unavailable

AGAIN_S = 1.0
logger = logging.getLogger(__name__)

T = TypeVar("T")


def until_answered(call: Callable[[], T], what: str) -> T:
    """Repeats a call until Redis answers.

    Args:
        call: the call; repeating it must be harmless.
        what: completes the sentence "Cannot … yet".

    Returns:
        What the call returned.
    """
    while True:
        try:
            return call()
        except redis.RedisError as error:
            logger.warning("Cannot %s yet: %s", what, error)
            time.sleep(AGAIN_S)


@contextmanager
def until_next_pulse(what: str) -> Iterator[None]:
    """Leaves the rest to the next pulse if Redis, the object store or the database does not answer: the message is
    done, not dead.

    Args:
        what: Starts the sentence "… is left to the next pulse".
    """
    try:
        yield
    except (redis.RedisError, Unavailable) as error:
        logger.warning("%s is left to the next pulse: %s", what, error)
