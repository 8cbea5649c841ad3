"""What the processes of a system use: their number, memory, CPU time and connections, read from /proc."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
START_S, QUIET_S = 60, 0.5


def with_descendants(pids: Iterable[int]) -> set[int]:
    """These processes and all that descend from them."""
    children: dict[int, list[int]] = {}
    for folder in PROC.glob("[0-9]*"):
        fields = _stat(int(folder.name))
        if fields:
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    numbers: set[int] = set()
    todo = list(pids)
    while todo:
        pid = todo.pop()
        if _stat(pid):
            numbers.add(pid)
        todo += children.get(pid, [])
    return numbers


def commands_below(pid: int) -> list[list[str]]:
    """The command lines of this process and of all that descend from it."""
    lines = []
    for each in with_descendants([pid]):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines.append((PROC / str(each) / "cmdline").read_text().split("\0"))
    return lines


def is_alive(pid: int) -> bool:
    """Not so once it has ended, also while its parent has not asked how."""
    return _state(PROC / str(pid) / "stat") not in ("", "Z", "X")


def memory_bytes(pids: Iterable[int]) -> int:
    """Proportional set size: pages that several processes share are divided among them."""
    return sum(memory_of(pid)["Pss"] for pid in pids)


def cpu_s(pids: Iterable[int]) -> float:
    """User and system time to the nanosecond; that of children which have ended, to the clock's tick."""
    return sum(_own_cpu_s(pid) + sum(int(ticks) for ticks in _stat(pid)[13:15]) / TICKS_PER_S for pid in pids)


def with_cpu_s(pids: set[int], act: Callable[[], Any]) -> tuple[Any, float]:
    """What comes of it, and the CPU time of these processes meanwhile."""
    before = cpu_s(pids)
    result = act()
    return result, cpu_s(pids) - before


def until_quiet(pids: set[int]) -> None:
    """What a system still does after its start, the product's sandboxes load their libraries, is no job's cost."""
    deadline = time.monotonic() + START_S
    while with_cpu_s(pids, lambda: time.sleep(QUIET_S))[1] > QUIET_S / 10 and time.monotonic() < deadline:
        pass


class Tracked:
    """One process, and never another one that was given its pid after its end."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        descriptor = os.pidfd_open(pid)
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def is_alive(self) -> bool:
        """Not so once it has ended, also while its parent has not asked how."""
        ends = select.poll()
        ends.register(self._descriptor, select.POLLIN)
        return not ends.poll(0)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)


def send(pids: Iterable[int], number: int) -> set[int]:
    """Those that were there to get it."""
    reached = set()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            reached.add(pid)
    return reached


def stop(pids: Iterable[int]) -> None:
    """SIGSTOP, and returns when every thread stands still."""
    pids = send(pids, signal.SIGSTOP)
    threads = [path for pid in pids for path in (PROC / str(pid) / "task").glob("*/stat")]
    while not all(_state(path) in ("T", "Z", "") for path in threads):
        time.sleep(0.001)


def local_ports(pids: Iterable[int]) -> set[int]:
    """Of the IPv4 connections and UDP sockets that these processes have."""
    ports: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, and has none any more
            links = [str(path.readlink()) for path in (PROC / str(pid) / "fd").iterdir()]
            inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
            tables = [(PROC / str(pid) / "net" / kind).read_text().splitlines()[1:] for kind in ("tcp", "udp")]
            rows = [line.split() for table in tables for line in table]
            ports |= {int(row[1].partition(":")[2], 16) for row in rows if row[9] in inodes}
    return ports


def _state(stat: Path) -> str:
    try:
        return stat.read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _own_cpu_s(pid: int) -> float:
    clock = (~pid << 3) | 2  # as clock_getcpuclockid(3) makes it, which Python does not have
    try:
        return time.clock_gettime(clock)
    except OSError:  # the process is gone
        return 0.0


def memory_of(pid: int) -> Counter[str]:
    """Bytes by the kernel's names for them: Pss, Private_Dirty, Private_Clean …; nothing when the process is gone."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):
        return Counter()
    return Counter({line.partition(":")[0]: int(line.split()[1]) * 1024 for line in lines})


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on (proc(5) counts from 3 there); empty when the process is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
