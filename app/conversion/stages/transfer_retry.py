"""Patience with the object store: a transfer of a stage is tried again while the store is unreachable."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from app.kit.errors import Unavailable
from app.kit.objects import StoreFull

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
logger = logging.getLogger(__name__)

T = TypeVar("T")


def retry_transfer(call: Callable[[], T]) -> T:
    """Retries a transfer for half a minute while the store is unreachable. It does not wait for a full store."""
    deadline = None
    for pause_s in PAUSES_S:
        try:
            return call()
        except StoreFull:
            raise
        except Unavailable as error:
            deadline = deadline or time.monotonic() + sum(PAUSES_S)
            if time.monotonic() > deadline:  # an unresponsive store makes each attempt slow
                raise
            logger.warning("The object store: %s Again in %g s.", error.message, pause_s)
            time.sleep(pause_s)
    return call()
