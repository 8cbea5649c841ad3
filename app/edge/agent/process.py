"""One process of a worker: started in a session of its own, watched by its pidfd, ended with all of its group.

It outlives the agent, and the next agent adopts it: by its pid and the moment it was started, counted in ticks since
this boot of the machine, which no other process of the same pid has, and which no change of the clock moves.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil  # type: ignore[import-untyped]

TERM_S = 5.0
KILL_S = 10.0
BOOT = Path("/proc/sys/kernel/random/boot_id")


def identity_of(pid: int) -> str:
    """Empty for a process that is not, or is no more than its exit code."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        boot = BOOT.read_text().strip()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot} {fields[19]}"


def end_strays(folder: Path) -> int:
    """Workers whose folders are in this one, when nobody remembers which they are: SIGTERM, and after a while SIGKILL,
    to their groups. Their number."""
    found = [process for process in psutil.process_iter() if _is_of(process, folder)]
    for number, patience_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        for process in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        psutil.wait_procs(found, timeout=patience_s)
    return len(found)


def _is_of(process: psutil.Process, folder: Path) -> bool:
    """Is it begun as a worker is: the first of its session, without a terminal, in a folder of its own?"""
    try:
        is_first = os.getsid(process.pid) == process.pid and process.terminal() is None
        return is_first and Path(process.cwd()).is_relative_to(folder)
    except (psutil.Error, OSError):
        return False


class Process:
    """ended: its exit code, negative for a signal; None when it was adopted, for then nobody can see it."""

    def __init__(self, pid: int, descriptor: int, child: subprocess.Popen[bytes] | None) -> None:
        self.pid = pid
        self.identity = identity_of(pid)
        self._descriptor = descriptor
        self._child = child
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[int | None] = self._loop.create_future()
        self._loop.add_reader(descriptor, self._on_end)

    @classmethod
    def start(cls, command: Sequence[str], environment: Mapping[str, str], *, folder: Path, log: Path) -> Self:
        """Raises OSError, ValueError for what cannot be started."""
        with log.open("ab") as output:
            child = subprocess.Popen(
                list(command),
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(child.pid, os.pidfd_open(child.pid), child)

    @classmethod
    def adopt(cls, pid: int, identity: str) -> Self | None:
        """The process that was this one; None when it has ended."""
        try:
            descriptor = os.pidfd_open(pid)
        except (OSError, ValueError):
            return None
        if not identity or identity_of(pid) != identity:  # asked after the pidfd was made: it is the same from here on
            os.close(descriptor)
            return None
        return cls(pid, descriptor, None)

    @property
    def is_running(self) -> bool:
        return not self.ended.done()

    async def end(self) -> None:
        """SIGTERM, and after a while SIGKILL, to the whole group. Returns when it has ended."""
        for number, patience_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
            if self.is_running:
                self._signal(number)
                await asyncio.wait({self.ended}, timeout=patience_s)

    def leave(self) -> None:
        """Look after it no longer; it goes on."""
        if self.is_running:
            self._let_go()
            if self._child is not None:
                self._child.returncode = 0  # what Popen would otherwise warn of

    def _on_end(self) -> None:
        """What it has left of its group goes, too; before its exit code is taken, which frees the pid."""
        self._signal(signal.SIGKILL)
        self._let_go()
        self.ended.set_result(self._child.wait() if self._child is not None else None)

    def _let_go(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
