"""Locks by name, which exist as long as somebody holds or awaits them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary


class _Lock:
    """A lock that a weak dictionary can hold."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class KeyedLocks:
    """Lets one thread at a time do the work of a key."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, _Lock] = WeakValueDictionary()

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Holds the lock of a key, once the threads that came before have left it."""
        lock = self._locks.setdefault(key, _Lock())
        with lock.lock:
            yield
