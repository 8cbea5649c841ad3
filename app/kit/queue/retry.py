"""Repeats a call until Redis has answered it: for the calls on which a job would hang for ever if they were given up.

Whatever is called this way must do no harm when it is done twice, for an answer may be lost after the deed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

import redis

AGAIN_S = 1.0
logger = logging.getLogger(__name__)

T = TypeVar("T")


def until_answered(call: Callable[[], T], what: str) -> T:
    """what: completes the sentence "Cannot … yet"."""
    while True:
        try:
            return call()
        except redis.RedisError as error:
            logger.warning("Cannot %s yet: %s", what, error)
            time.sleep(AGAIN_S)
