"""One process of the stack: its command on a leash, its log, its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app.standalone import leash

LEASH = Path(leash.__file__)
TAIL_BYTES = 4096
Role = Literal["server", "worker", "sftp"]


@dataclass(frozen=True)
class Part:
    """What to run. name: also the name of its log. is_last: the others lean on it, so it is stopped after them.
    role: decides which secrets it is told (see `secrets`), a server all."""

    name: str
    command: tuple[str, ...]
    is_last: bool = False
    role: Role = "server"


class Process:
    """A running part, in a session and process group of its own, so that Ctrl-C in a terminal does not reach it."""

    def __init__(self, part: Part, *, log: Path, environment: Mapping[str, str], lifeline: int, folder: Path) -> None:
        command = [sys.executable, "-I", "-S", str(LEASH), str(lifeline), "--", *part.command]
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                cwd=folder,
                pass_fds=[lifeline],
                start_new_session=True,
            )
        self.pid = self._popen.pid
        self.pidfd = os.pidfd_open(self.pid)

    def is_running(self) -> bool:
        """Reaps it when it has ended, and makes sure that its whole group has."""
        if self._popen.returncode is not None:
            return False
        if self._popen.poll() is None:
            return True
        self._sweep()
        return False

    @property
    def returncode(self) -> int | None:
        return self._popen.returncode

    def ask_to_stop(self) -> None:
        """SIGTERM. The first is passed on to the command; the second makes the leash kill all of it."""
        if self.is_running():
            self._popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """The last resort, when the leash itself does not answer."""
        if self.is_running():
            self._kill_group()
            self._popen.wait()
            self._sweep()

    def _sweep(self) -> None:
        if self.pidfd >= 0:
            self._kill_group()
            os.close(self.pidfd)
            self.pidfd = -1

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log, for whoever has to find out why a part ended."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
