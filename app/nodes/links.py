"""Which nodes are connected to this process, and what each was sent lately.

A node has one connection: a second one supersedes the first, which may be a dead one that nobody has noticed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

from app.nodes.model import REPEAT_S, Order


class Sent:
    """When a node was sent what it has not acknowledged."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}

    def due(self, pending: Sequence[Order], at: float) -> list[Order]:
        """What is to be sent now: what is new, and what was sent so long ago that it may be lost."""
        self._at = {order.seq: self._at[order.seq] for order in pending if order.seq in self._at}
        due = [order for order in pending if at - self._at.get(order.seq, at - REPEAT_S) >= REPEAT_S]
        self._at.update({order.seq: at for order in due})
        return due

    def wait_s(self, at: float) -> float:
        """Until something is due again."""
        return max(0.0, min(self._at.values(), default=at) + REPEAT_S - at)

    def forget(self) -> None:
        """All is due at once."""
        self._at.clear()


class Links:
    def __init__(self) -> None:
        self._taken: dict[str, asyncio.Event] = {}
        self._sent: dict[str, Sent] = {}

    @contextlib.contextmanager
    def take(self, node: str) -> Iterator[asyncio.Event]:
        """Be the connection of this node. The event is set when another one takes its place."""
        former, mine = self._taken.get(node), asyncio.Event()
        if former is not None:
            former.set()
        self._taken[node] = mine
        try:
            yield mine
        finally:
            if self._taken.get(node) is mine:
                del self._taken[node]

    def polled(self, node: str) -> Sent:
        """What a node that polls was sent by earlier answers."""
        return self._sent.setdefault(node, Sent())
