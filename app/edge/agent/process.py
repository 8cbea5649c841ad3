"""One process of a worker: started in its own session, monitored through a pidfd, ended with its whole group.

It outlives the agent, and the next agent adopts it by its pid and its start time in ticks since boot, which are unique
even if the pid is reused and do not depend on the clock.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import psutil

from app.kit.process.spawn import signal_group, spawn

TERM_S = 5.0
KILL_S = 10.0
POLL_S = 0.02
BOOT = Path("/proc/sys/kernel/random/boot_id")


def identity_of(pid: int) -> str:
    """Distinguishes processes with the same pid; empty for one that does not exist or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        boot = BOOT.read_text().strip()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot} {fields[19]}"


def end_orphans(folder: Path) -> int:
    """End all workers whose folders are in this one, by SIGTERM and then SIGKILL to their groups.

    Returns:
        The number of ended workers.
    """
    orphans = {process.pid: identity_of(process.pid) for process in psutil.process_iter() if _is_of(process, folder)}
    for number, patience_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        for pid, identity in orphans.items():
            if identity_of(pid) in (identity, ""):  # its pid is not that of another process
                signal_group(pid, number)
        _wait_for_ends(orphans, patience_s)
    return len(orphans)


def _wait_for_ends(identities: Mapping[int, str], patience_s: float) -> None:
    """Waits until none of them, by pid, runs. psutil.wait_procs waits by pid alone at last: for a child of this process
    that has got the pid meanwhile, without end."""
    deadline = time.monotonic() + patience_s
    while any(identity == identity_of(pid) != "" for pid, identity in identities.items()):
        if time.monotonic() >= deadline:
            return
        time.sleep(POLL_S)


def _is_of(process: psutil.Process, folder: Path) -> bool:
    """Returns whether it was started like a worker: as a session leader without a terminal, in a folder below this
    one."""
    try:
        is_first = os.getsid(process.pid) == process.pid and process.terminal() is None
        return is_first and Path(process.cwd()).is_relative_to(folder)
    except (psutil.Error, OSError):
        return False


class WorkerProcess:
    """A running process.

    Attributes:
        ended: done when it has ended, with its exit code (negative: a signal); None for an adopted one, whose exit code
            is not visible.
    """

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
        """Start a command in a new session with empty input.

        Args:
            environment: the complete environment; nothing is inherited.
            folder: where it starts.
            log: gets its output and its errors, appended.

        Raises:
            OSError: The program or the folder does not exist, or no process can be created.
            ValueError: An argument contains a NUL.
        """
        child = spawn(command, env=environment, log=log, folder=folder)
        return cls(child.pid, os.pidfd_open(child.pid), child)

    @classmethod
    def adopt(cls, pid: int, identity: str) -> Self | None:
        """Returns the process with this pid and identity; None if it has ended."""
        try:
            descriptor = os.pidfd_open(pid)
        except (OSError, ValueError):
            return None
        if not identity or identity_of(pid) != identity:  # read after the pidfd was opened, so it cannot change anymore
            os.close(descriptor)
            return None
        return cls(pid, descriptor, None)

    @property
    def is_running(self) -> bool:
        return not self.ended.done()

    async def end(self) -> None:
        """Send SIGTERM, and after TERM_S SIGKILL, to the whole group. Returns when it has ended."""
        for number, patience_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
            if self.is_running:
                self._send_signal(number)
                await asyncio.wait({self.ended}, timeout=patience_s)

    def detach(self) -> None:
        """Stop watching; the process continues."""
        if self.is_running:
            self._release()
            if self._child is not None:
                self._child.returncode = 0  # otherwise Popen would warn

    def _on_end(self) -> None:
        """Kills the rest of its group, before reading the exit code frees the pid."""
        self._send_signal(signal.SIGKILL)
        self._release()
        self.ended.set_result(self._child.wait() if self._child is not None else None)

    def _release(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _send_signal(self, number: int) -> None:
        signal_group(self.pid, number)
