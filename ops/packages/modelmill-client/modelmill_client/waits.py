"""How long what is waited for, in seconds."""

from __future__ import annotations

POLL_S = 3.0
"""Between two looks at a job, where events do not come through."""
SILENCE_S = 45.0
"""The stream pings every 15 s; after this long without one it counts as broken."""
PATIENCE_S = 60.0
"""How long a wait for a job outlasts a service that does not answer."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
"""Between two tries of a request; longer where the service says so."""


def pause_s(tries: int, retry_after: str) -> float:
    """Before the next try.

    Args:
        tries: How many there were.
        retry_after: The header of the last answer; empty for none.
    """
    if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 6:
        return float(retry_after)
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (tries - 1))
