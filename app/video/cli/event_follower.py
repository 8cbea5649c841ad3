"""The events of a job's rules as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.video.client import VideoClient

EVERY_S = 2.0
"""Between two requests."""
AT_ONCE = 200
Record = dict[str, Any]


def followed_events(client: VideoClient, job: str, *, rule: str = "", cursor: int = 0) -> Iterator[list[Record]]:
    """Without an end.

    Args:
        rule: Of this rule alone; empty: of all.
        cursor: The event_id of the last one that is known.

    Yields:
        What has come since, oldest first; nothing after a pause in which nothing came.
    """
    while True:
        events = client.rule_events(job, rule=rule, limit=AT_ONCE, order="asc", cursor=cursor)["events"]
        if events:
            cursor = events[-1]["event_id"]
        else:
            time.sleep(EVERY_S)
        yield events
