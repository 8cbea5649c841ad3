"""What `ps` and `top` call a process that was forked and never became a program of its own."""

from __future__ import annotations

import ctypes
from pathlib import Path

PR_SET_NAME = 15
ARG_START, ARG_END = 45, 46
"""Of the fields of /proc/self/stat that follow the name: where the command line lies in memory."""


def set_title(text: str) -> None:
    """Write over the command line, as far as there is room; and over the short name, which has 15 bytes."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, text.removeprefix("modelmill ").encode(), 0, 0, 0)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, size = int(fields[ARG_START]), int(fields[ARG_END]) - int(fields[ARG_START])
    if start and size > 0:
        ctypes.memmove(start, text.encode()[: size - 1].ljust(size, b"\0"), size)
