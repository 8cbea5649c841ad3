"""Memory that a process does not need: given back, or kept from being copied by the processes forked from it."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
import threading

POOLS = re.compile(r"^ *\d+ +(\d+) +\d+ +\d+ +(\d+) *$", re.MULTILINE)
"""A line of the allocator's statistics: size in bytes of its blocks, how many of them are free."""
SETTLED_S = 5.0
BYTES_OVERHEAD = sys.getsizeof(b"")
_fillings: list[bytes] = []


def give_back() -> None:
    """What was needed to start, and is not needed any more."""
    gc.collect()
    gc.freeze()  # what is there stays: to look through it again and again would halt the work each time
    ctypes.CDLL(None).malloc_trim(0)


def give_back_later() -> None:
    """Once what follows a start is over: the first messages, the first looks at the database."""
    timer = threading.Timer(SETTLED_S, give_back)
    timer.daemon = True
    timer.start()


def freeze_for_fork() -> None:
    """Before the first fork: what is here is not looked through by collections, and no child puts anything between it,
    for either would make the child copy whole pages."""
    give_back()
    for size, count in _free_blocks().items():
        if size > BYTES_OVERHEAD:
            _fillings.extend(bytes(size - BYTES_OVERHEAD) for _ in range(count))
    gc.freeze()


def _free_blocks() -> dict[int, int]:
    """Python writes its statistics nowhere but to file 2."""
    errors, text = os.dup(2), os.memfd_create("statistics")
    try:
        os.dup2(text, 2)
        sys._debugmallocstats()
        os.dup2(errors, 2)
        with os.fdopen(os.dup(text)) as file:
            file.seek(0)
            return {int(size): int(count) for size, count in POOLS.findall(file.read())}
    finally:
        os.close(errors)
        os.close(text)
