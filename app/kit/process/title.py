"""What `ps` and `top` call a process that was forked and never became a program of its own."""

from __future__ import annotations

import ctypes
from pathlib import Path

PR_SET_NAME = 15
ARG_START, ARG_END = 45, 46
"""Of the fields of /proc/self/stat that follow the name: where the command line lies in memory."""


_libc = ctypes.CDLL(None)


def set_short_name(text: str) -> None:
    """What `ps -o comm` and `top` show: 15 bytes."""
    _libc.prctl(PR_SET_NAME, text.encode(), 0, 0, 0)


def set_title(text: str) -> None:
    """Write over the command line, as far as there is room; and over the short name."""
    set_short_name(text.removeprefix("modelmill "))
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, size = int(fields[ARG_START]), int(fields[ARG_END]) - int(fields[ARG_START])
    if start and size > 0:
        ctypes.memmove(start, text.encode()[: size - 1].ljust(size, b"\0"), size)
