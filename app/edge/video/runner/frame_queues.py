"""Queues of frames between threads: in order, of limited length, and with a limit of those at work."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
ROOM = 4


class FrameQueue(Generic[Item]):
    """A short queue between one thread that reads frames and several that work on them."""

    def __init__(self, *, leaky: bool, room: int = ROOM) -> None:
        """Creates an empty queue. If it is full, a leaky one drops its oldest item; otherwise `put` waits."""
        self.leaky, self.room = leaky, room
        self.dropped = 0
        """Number of dropped items."""
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_full(self) -> bool:
        return len(self._items) >= self.room

    def put(self, item: Item) -> None:
        """Adds an item; a closed queue ignores it."""
        with self._changed:
            if self.leaky and self.is_full:
                self._items.popleft()
                self.dropped += 1
            self._changed.wait_for(lambda: not self.is_full or self._is_closed)
            if not self._is_closed:
                self._items.append(item)
            self._changed.notify_all()

    def take(self, is_outdated: Callable[[Item], bool] = lambda _: False) -> Item | None:
        """Waits for an item. None: the queue is closed and empty.

        Args:
            is_outdated: whether an item comes too late by now. A leaky queue drops such items, except for its newest.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_closed)
            while self.leaky and len(self._items) > 1 and is_outdated(self._items[0]):
                self._items.popleft()
                self.dropped += 1
            item = self._items.popleft() if self._items else None
            self._changed.notify_all()
            return item

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class ReorderBuffer(Generic[Result]):
    """Passes results on in the order of their tickets, one at a time, in the thread that settles the next in turn."""

    def __init__(self, give: Callable[[Result], None], *, ahead: int = 32) -> None:
        """
        Args:
            give: called with each result.
            ahead: the number of unsettled tickets from which `ticket` waits.
        """
        self._give, self._ahead = give, ahead
        self._settled: dict[int, Result] = {}
        self._out = 0
        self._next = 0
        self._changed = threading.Condition()
        self._giving = threading.Lock()

    def ticket(self) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._out - self._next < self._ahead)
            self._out += 1
            return self._out - 1

    def settle(self, ticket: int, result: Result) -> None:
        with self._changed:
            self._settled[ticket] = result
        with self._giving:
            while (next_result := self._find_due()) is not None:
                try:
                    self._give(next_result)
                finally:
                    with self._changed:
                        self._next += 1
                        self._changed.notify_all()

    def _find_due(self) -> Result | None:
        with self._changed:
            return self._settled.pop(self._next, None)


class ConcurrencyLimit:
    """The number of frames that are processed at once.

    For a live job it adapts: one fewer if frames wait at the stage hosts, otherwise one more.
    """

    LEAST, MOST = 1, 4
    HIGH, LOW = 0.3, 0.1
    """Shares of a frame's time that it waits."""

    def __init__(self, *, realtime: bool) -> None:
        self._realtime = realtime
        self.limit = 2 if realtime else self.MOST
        self._busy = 0
        self._measured = 0
        self._changed = threading.Condition()

    def enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._busy < self.limit)
            self._busy += 1

    def leave(self) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def measured(self, waited_s: float, took_s: float) -> None:
        """Records a frame: the seconds that it waited at hosts, and that it took in total."""
        if not self._realtime or took_s <= 0:
            return
        with self._changed:
            self._measured += 1
            if self._measured < self.limit * 2:
                return
            self._measured = 0
            share = waited_s / took_s
            if share > self.HIGH:
                self.limit = max(self.LEAST, self.limit - 1)
            elif share < self.LOW:
                self.limit = min(self.MOST, self.limit + 1)
            self._changed.notify_all()
