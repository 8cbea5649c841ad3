"""Between who reads frames and who works on them: a short queue, and results in the order of the frames."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

ROOM = 4
Item = TypeVar("Item")
Result = TypeVar("Result")


class FrameQueue(Generic[Item]):
    """leaky: a full queue drops its oldest; else who puts waits. dropped: how many."""

    def __init__(self, *, leaky: bool, room: int = ROOM) -> None:
        self.leaky, self.room = leaky, room
        self.dropped = 0
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_full(self) -> bool:
        return len(self._items) >= self.room

    def put(self, item: Item) -> None:
        """Into a closed queue nothing is put."""
        with self._changed:
            if self.leaky and self.is_full:
                self._items.popleft()
                self.dropped += 1
            self._changed.wait_for(lambda: not self.is_full or self._is_closed)
            if not self._is_closed:
                self._items.append(item)
            self._changed.notify_all()

    def take(self) -> Item | None:
        """Waits for one; None: it is closed, and all that was in it has been taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_closed)
            item = self._items.popleft() if self._items else None
            self._changed.notify_all()
            return item

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class InOrder(Generic[Result]):
    """Gives results on in the order of their tickets, one at a time, by the thread that settles the one next in turn.

    ahead: so many tickets may be out before who wants another has to wait.
    """

    def __init__(self, give: Callable[[Result], None], *, ahead: int = 32) -> None:
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
            while (found := self._due()) is not None:
                try:
                    self._give(found)
                finally:
                    with self._changed:
                        self._next += 1
                        self._changed.notify_all()

    def _due(self) -> Result | None:
        with self._changed:
            return self._settled.pop(self._next, None)


class Allowance:
    """How many frames are worked on at once. Of a live job no more than help: where frames wait at the hosts of the
    stages there is one fewer, where none does there is one more."""

    LEAST, MOST = 1, 4
    HIGH, LOW = 0.3, 0.1
    """Share of waiting in a frame's time."""

    def __init__(self, *, realtime: bool) -> None:
        self._realtime = realtime
        self.limit = 2 if realtime else self.MOST
        self._busy = 0
        self._heard = 0
        self._changed = threading.Condition()

    def enter(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._busy < self.limit)
            self._busy += 1

    def leave(self) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def heard(self, waited_s: float, took_s: float) -> None:
        """Of a frame: how long it waited at hosts, and took in all."""
        if not self._realtime or took_s <= 0:
            return
        with self._changed:
            self._heard += 1
            if self._heard < self.limit * 2:
                return
            self._heard = 0
            share = waited_s / took_s
            if share > self.HIGH:
                self.limit = max(self.LEAST, self.limit - 1)
            elif share < self.LOW:
                self.limit = min(self.MOST, self.limit + 1)
            self._changed.notify_all()
