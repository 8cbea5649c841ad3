"""What is done about servers that do not answer: a call on which a job would hang for ever is repeated until Redis has
answered it, and what happens by the clock waits for its next pulse.

Whatever is called this way must do no harm when it is done twice, for an answer may be lost after the deed.
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
    """Call until Redis answers.

    Args:
        call: asks it; may be done twice.
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
    """Leave the rest to the next pulse when Redis, the object store or the database does not answer: the message that
    began it is done with, and not dead.

    Args:
        what: Begins the sentence "… is left to the next pulse".
    """
    try:
        yield
    except (redis.RedisError, Unavailable) as error:
        logger.warning("%s is left to the next pulse: %s", what, error)
