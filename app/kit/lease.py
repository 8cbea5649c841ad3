"""A lease: only its holder works, as long as the holder renews it. If a holder dies, its lease expires.

It prevents two processes from working at once, but cannot prevent a holder that was paused from continuing a moment too
long: writes need a guard of their own. Leases are in Redis where losing all of them at once does no harm, and in SQL
where a restart of Redis must not release them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from app.kit.clock import happens_within

POLL_S = 0.05


class Lease(Protocol):
    """One holder's view of a lease. Every method may raise the store's errors: the state is then unknown, and the
    holder must consider the lease lost."""

    ttl_s: float
    """How long it lasts without renewal."""

    def take(self) -> bool:
        """Acquires or renews the lease for its full duration. True: it was free, or already ours."""

    def release(self) -> None:
        """Releases it unless another holder has it."""


@contextmanager
def hold(lease: Lease, *, wait_s: float = 0.0) -> Iterator[bool]:
    """Acquires the lease, and releases it at the end.

    Args:
        wait_s: how long to wait until it is free, in seconds.

    Yields:
        Whether the lease was acquired.
    """
    is_ours = happens_within(wait_s, lease.take, poll_s=POLL_S)
    try:
        yield is_ours
    finally:
        if is_ours:
            lease.release()
