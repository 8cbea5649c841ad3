"""The descendants of a process, and their memory."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
HAS_CHILDREN_FILES = Path("/proc/thread-self/children").exists()


def list_all(root: int) -> list[int]:
    """Returns every descendant of a process except zombies. It reads the state of all processes of the host."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            state, parent = _read_state_and_parent(entry)
            if state not in "ZX":
                children.setdefault(parent, []).append(int(entry))
    pids, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        pids += below
        todo += below
    return pids


def _read_state_and_parent(pid: str) -> tuple[str, int]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[1])


def measure_memory(root: int) -> int:
    """Returns the private resident memory of all descendants, in bytes."""
    total = 0
    for pid in list_monitored(root):
        with contextlib.suppress(OSError, ValueError):
            _, resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[:3]
            total += (int(resident) - int(shared)) * PAGE_BYTES
    return total


def list_monitored(root: int) -> list[int]:
    """Returns the descendants of a process, for monitoring: see `_list_listed`."""
    return _list_listed(root) if HAS_CHILDREN_FILES else list_all(root)


def _list_listed(root: int) -> list[int]:
    """Returns the descendants as the kernel lists them: cheap on a host with many processes, but it may miss some while
    others end. Sufficient for monitoring ten times a second, not for killing."""
    pids, todo = [], [root]
    while todo:
        pid = todo.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                below = [int(text) for text in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
                pids += below
                todo += below
    return pids
