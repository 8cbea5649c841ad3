"""A process that gets the pid of one that has ended, as happens by chance where many processes start."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
ATTEMPTS = 1000


@contextmanager
def sleeping_with_pid(pid: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a session and has this pid, which must be free. Skips where none can be chosen."""
    for _ in range(ATTEMPTS):
        try:
            LAST_PID.write_text(str(pid - 1))
        except OSError as error:
            pytest.skip(f"a pid cannot be chosen here: {error}")
        process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        try:
            if process.pid == pid:
                yield process
                return
        finally:
            process.kill()
            process.wait()
    raise RuntimeError(f"others took the pid {pid} each time")
