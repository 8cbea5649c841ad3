"""A thread that exchanges two names of a folder as fast as it can: the swap between a check and its use."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

RENAME_EXCHANGE = 2
AT_FDCWD = -100


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    names = os.fsencode(one), os.fsencode(other)
    assert rename(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0, os.strerror(ctypes.get_errno())
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            rename(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def outcomes(look: Callable[[], object], *, at_least: int, kinds: int, at_most: int = 200_000) -> set[object]:
    """What so many looks gave, and more of them until that were so many different things."""
    seen: set[object] = set()
    for count in range(at_most):
        seen.add(look())
        if count >= at_least and len(seen) >= kinds:
            break
    return seen
