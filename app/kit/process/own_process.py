"""What a process sets for itself: its name in `ps` and `top`, its limit of open files, and memory that it does not
need, returned to the system or not copied by forked processes."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

POOLS = re.compile(r"^ *\d+ +(\d+) +\d+ +\d+ +(\d+) *$", re.MULTILINE)
"""A line of the allocator's statistics: size in bytes of its blocks, and how many of them are free."""
SMAPS = Path("/proc/self/smaps")
MAPPINGS = re.compile(r"^(\w+)-(\w+) r-.p \w+ \S+ [1-9]\d* (?:.*\n)+?Anonymous: +(\d+) kB$", re.MULTILINE)
"""A mapping of a file that only this process could change, and cannot write to: begin, end, and how much of it was
changed, as by the linker."""
OWN_MEMORY = re.compile(r"^(\w+)-(\w+) rw-p \w+ 00:00 0 *(?:\[heap\])?$", re.MULTILINE)
"""A mapping of no file that belongs to this process alone: begin and end."""
SETTLED_S = 5.0
MADV_DONTNEED, MADV_COLLAPSE = 4, 25
M_MMAP_THRESHOLD = -3
HUGE_PAGE_BYTES = 1 << 21
_libc = ctypes.CDLL(None)
BYTES_OVERHEAD = sys.getsizeof(b"")
_fillings: list[bytes] = []


@contextmanager
def without_collector() -> Iterator[None]:
    """Pauses the garbage collector for imports: what they make stays, and looking through it again and again takes more
    than a tenth of their CPU time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def give_back() -> None:
    """Releases what was needed only to start."""
    release()
    for begin, size in _iterate_unchanged_files():
        _libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), MADV_DONTNEED)
    gc.freeze()  # existing objects stay: scanning them again and again would interrupt the work each time


def return_freed_blocks(size_bytes: int) -> None:
    """From now on, freed blocks of this size and more go back to the system at once. By itself the allocator keeps
    those of up to 32 MB once it has seen one, and fills them with what is smaller (mallopt(3))."""
    _libc.mallopt(M_MMAP_THRESHOLD, size_bytes)


def release() -> None:
    """Returns what nothing refers to any more, also where the allocator would keep it."""
    gc.collect()
    _libc.malloc_trim(0)


def _iterate_unchanged_files() -> Iterator[tuple[int, int]]:
    """Address and size of the parts of programs and libraries in memory that equal their files. The kernel reads them
    again when they are used again; much of them only a start uses. None where the kernel does not say."""
    for begin, end, anonymous in MAPPINGS.findall(SMAPS.read_text() if SMAPS.exists() else ""):
        if anonymous == "0":
            yield int(begin, 16), int(end, 16) - int(begin, 16)


def give_back_later() -> None:
    """Runs after the start-up work is over: the first messages, the first database queries."""
    timer = threading.Timer(SETTLED_S, give_back)
    timer.daemon = True
    timer.start()


def freeze_for_fork() -> None:
    """Runs before the first fork: the garbage collector skips existing objects, and no child allocates between them,
    because either would make the child copy whole pages. Memory becomes huge pages, each of which a fork copies as one
    entry of the page table instead of 512; a child that writes to one still copies only 4 KiB."""
    give_back()
    for size, count in _count_free_blocks().items():
        if size > BYTES_OVERHEAD:
            _fillings.extend(bytes(size - BYTES_OVERHEAD) for _ in range(count))
    gc.freeze()
    for begin, size in _iterate_huge_ranges():
        _libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(size), MADV_COLLAPSE)


def _iterate_huge_ranges() -> Iterator[tuple[int, int]]:
    """Address and size of the parts of its own memory that can be huge pages. Kernels before 6.1 leave them as they
    are, as does one that finds no room for a huge page."""
    maps = Path("/proc/self/maps")
    for first, last in OWN_MEMORY.findall(maps.read_text() if maps.exists() else ""):
        begin = -(-int(first, 16) // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
        size = int(last, 16) // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES - begin
        if size > 0:
            yield begin, size


def _count_free_blocks() -> dict[int, int]:
    """Python writes its statistics only to file descriptor 2."""
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


PR_SET_NAME = 15
ARG_START, ARG_END = 45, 46
"""Index among the fields of /proc/self/stat after the name: the address of the command line in memory."""


def set_short_name(text: str) -> None:
    """What `ps -o comm` and `top` show: 15 bytes."""
    _libc.prctl(PR_SET_NAME, text.encode(), 0, 0, 0)


@cache
def _locate_command_line() -> tuple[int, int]:
    """Its address in memory, and its length in bytes: the same in every process forked from this one."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[ARG_START]), int(fields[ARG_END]) - int(fields[ARG_START])


def set_title(text: str) -> None:
    """Overwrites the command line, as far as there is room, and the short name."""
    set_short_name(text.removeprefix("modelmill "))
    start, size = _locate_command_line()
    if start and size > 0:
        ctypes.memmove(start, text.encode()[: size - 1].ljust(size, b"\0"), size)


def raise_limit() -> int:
    """Raises the soft limit, 1,024 in most shells, to the hard one. Returns the new limit.

    A web process has a socket for each viewer and each upload; a child process inherits its parent's limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
