"""Time as an argument: functions take `now` from their caller; only process entry points read the clock here."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache


def now() -> datetime:
    """Returns the time, in UTC."""
    return datetime.now(UTC)


def ms_since(began: float) -> float:
    """Returns the milliseconds since a reading of `time.perf_counter`."""
    return (time.perf_counter() - began) * 1000


def to_text(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds: 2026-11-20T20:43:02.125Z. These texts sort by time."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    text = _make_encoder()(in_utc)
    return f"{text[1:24].decode()}Z" if in_utc.microsecond else f"{text[1:20].decode()}.000Z"


@cache
def _make_encoder() -> Callable[[datetime], bytes]:
    """By msgspec, which needs a third of the time of isoformat, and is not imported before it is used."""
    import msgspec

    return msgspec.json.Encoder().encode


def from_text(text: str) -> datetime:
    """Reads what `to_text` writes, and any other ISO 8601; anything else is a ValueError."""
    return datetime.fromisoformat(text)


def age(since: str, now: datetime) -> str:
    """Formats a duration as '3 min' and the like."""
    seconds = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def within_our_calendar(moment: datetime) -> datetime:
    """Returns the moment, unless it is so far away that it may have no UTC equivalent.

    Raises:
        ValueError: It is before 1970 or after 9000.
    """
    if not 1970 <= moment.year <= 9000:
        raise ValueError("must lie between the years 1970 and 9000")
    return moment


def happens_within(patience_s: float, is_so: Callable[[], bool], *, poll_s: float) -> bool:
    """Polls a condition until it holds, at least once.

    Args:
        patience_s: the maximum time, in seconds.
        poll_s: the pause between two checks, in seconds.

    Returns:
        Whether the condition held.
    """
    deadline = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_s)
    return True
