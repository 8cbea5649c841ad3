"""The name that `ps` and `top` show for a process that was forked and never became a program of its own."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

PR_SET_NAME = 15
ARG_START, ARG_END = 45, 46
"""Index among the fields of /proc/self/stat after the name: the address of the command line in memory."""


_libc = ctypes.CDLL(None)


def set_short_name(text: str) -> None:
    """What `ps -o comm` and `top` show: 15 bytes."""
    _libc.prctl(PR_SET_NAME, text.encode(), 0, 0, 0)


@cache
def _command_line() -> tuple[int, int]:
    """Its address in memory, and its length in bytes: the same in every process forked from this one."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[ARG_START]), int(fields[ARG_END]) - int(fields[ARG_START])


def set_title(text: str) -> None:
    """Overwrites the command line, as far as there is room, and the short name."""
    set_short_name(text.removeprefix("modelmill "))
    start, size = _command_line()
    if start and size > 0:
        ctypes.memmove(start, text.encode()[: size - 1].ljust(size, b"\0"), size)
