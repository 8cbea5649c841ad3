"""A lease: who has it works, and nobody else, for so long as it is taken again. A holder that dies loses it by time.

It keeps two from working on purpose, and cannot keep a holder that was halted from going on a moment too long: what
the holder writes must be guarded by itself. It lies in Redis where losing all leases at once does no harm, and in SQL
where a restart of Redis must not give away what somebody has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from app.kit.clock import happens_within

POLL_S = 0.05


class Lease(Protocol):
    """One holder's side of it. Every method may raise what the store raises: then nothing is known, and the holder must
    take it for lost.
    """

    ttl_s: float
    """How long it holds when it is not taken again."""

    def take(self) -> bool:
        """True: it was free, or ours already; it holds from now on as long as ever."""

    def release(self) -> None:
        """Unless it is another's by now."""


@contextmanager
def held(lease: Lease, *, wait_s: float = 0.0) -> Iterator[bool]:
    """Takes the lease, and releases it at the end.

    Args:
        wait_s: how long to wait until it is free, in seconds.

    Yields:
        Whether it is ours.
    """
    is_ours = happens_within(wait_s, lease.take, poll_s=POLL_S)
    try:
        yield is_ours
    finally:
        if is_ours:
            lease.release()
