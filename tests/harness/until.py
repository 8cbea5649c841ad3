"""Waiting for a condition, in every test that has no event to wait for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from app.kit.backoff import GrowingPause

PATIENCE_S = 150
"""Longer than one read timeout of the S3 client, after which the product asks the store again."""
PAUSES = GrowingPause(first_s=0.01, longest_s=0.2, growth=1.3)
"""Each look may be a request, which costs us and the product some milliseconds of the processor."""


def until(
    look: Callable[[], Any],
    is_enough: Callable[[Any], Any] = bool,
    *,
    what: str | Callable[[], str] = "",
    timeout_s: float = PATIENCE_S,
    pauses: GrowingPause = PAUSES,
) -> Any:
    """Returns the first value that is enough.

    Args:
        look: is called again and again.
        is_enough: whether a value is what the test waits for.
        what: that, in words; called only when it is needed.
        timeout_s: when it counts as never.
        pauses: between two calls.

    Raises:
        AssertionError: It did not happen in time.
    """
    deadline, pause_s = time.monotonic() + timeout_s, 0.0
    while not is_enough(value := look()):
        assert time.monotonic() < deadline, _complaint(what, value)
        time.sleep(pause_s := pauses.after(pause_s))
    return value


async def until_async(look: Callable[[], Any], is_enough: Callable[[Any], Any] = bool) -> Any:
    """See until."""
    deadline, pause_s = time.monotonic() + PATIENCE_S, 0.0
    while not is_enough(value := look()):
        assert time.monotonic() < deadline, _complaint("", value)
        await asyncio.sleep(pause_s := PAUSES.after(pause_s))
    return value


def _complaint(what: str | Callable[[], str], value: Any) -> str:
    return f"not in time: {what() if callable(what) else what}; at last: {value}"
