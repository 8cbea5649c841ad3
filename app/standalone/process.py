"""One process of the stack: its command under a subreaper, its log, its end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from app.kit.process.spawn import python_module, signal_group, spawn
from app.standalone import subreaper
from app.standalone.preloaded_parent import ForkRequest

SUBREAPER = Path(subreaper.__file__)
TAIL_BYTES = 4096
MAX_ANSWER_BYTES = 256
Role = Literal["server", "worker", "sftp"]


@dataclass(frozen=True)
class Call:
    """A function instead of a command, called in a process that is forked from the preloaded one."""

    target: str
    """As `module:function`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """By name, as JSON."""


@dataclass(frozen=True)
class Part:
    """What to run."""

    name: str
    """Also the name of its log."""
    command: tuple[str, ...]
    is_last: bool = False
    """Others depend on it, so it is stopped after them."""
    role: Role = "server"
    """Determines which secrets it gets (see `process_secrets`); a server gets all."""
    call: Call | None = None
    """The call that replaces the command; the command is then only what an operator would type."""


class Process(ABC):
    """A running part, in a session and process group of its own, so that Ctrl-C in a terminal does not reach it.

    Attributes:
        pid, pidfd: of its subreaper.
        returncode: None while it runs.
    """

    pid: int
    pidfd: int
    returncode: int | None = None

    def is_running(self) -> bool:
        """Returns whether it runs; after its end, ensures that its whole group has ended, and reaps it."""
        if self.returncode is not None:
            return False
        if not select.select([self.pidfd], [], [], 0)[0]:
            return True
        self._kill_group()  # before its pid is free for another process
        self.returncode = self._reap()
        os.close(self.pidfd)
        return False

    def ask_to_stop(self) -> None:
        """Sends SIGTERM. The first one is passed on to the command; the second makes the subreaper kill everything."""
        if self.is_running():
            with contextlib.suppress(ProcessLookupError):  # it has ended since, and its parent has reaped it
                signal.pidfd_send_signal(self.pidfd, signal.SIGTERM)

    def kill(self) -> None:
        """Kills it if the subreaper itself does not react."""
        if self.is_running():
            self._kill_group()
            select.select([self.pidfd], [], [])
            self.is_running()

    @abstractmethod
    def _reap(self) -> int:
        """Returns its exit code after its end."""

    def _kill_group(self) -> None:
        signal_group(self.pid, signal.SIGKILL)


class Command(Process):
    """A part that is a command.

    Args:
        log: gets its output and its errors, appended.
        environment: complete.
        lifeline: a descriptor; when its other end closes, the part ends.
        folder: where it starts.
    """

    def __init__(self, part: Part, *, log: Path, environment: Mapping[str, str], lifeline: int, folder: Path) -> None:
        command = [sys.executable, "-I", "-S", str(SUBREAPER), str(lifeline), "--", *part.command]
        self._popen = spawn(command, env=environment, log=log, folder=folder, pass_fds=[lifeline])
        self.pid = self._popen.pid
        self.pidfd = os.pidfd_open(self.pid)

    def _reap(self) -> int:
        return self._popen.wait()


class Forked(Process):
    """A part that is a call.

    Args:
        status: a pipe to which the subreaper writes its exit code; empty if the subreaper was killed.
    """

    def __init__(self, pid: int, pidfd: int, status: int) -> None:
        self.pid, self.pidfd, self._status = pid, pidfd, status

    def _reap(self) -> int:
        with os.fdopen(self._status, "rb") as pipe:
            return int(pipe.read() or -signal.SIGKILL)


class Parent:
    """The preloaded process, started when first needed, and again after an unexpected end.

    Args:
        modules: that it imports.
        environment: without secrets, since every part starts as a copy of this process.
        folder: where it starts.
        log: gets its output and its errors, appended.
    """

    def __init__(self, modules: tuple[str, ...], environment: Mapping[str, str], folder: Path, log: Path) -> None:
        self._modules, self._environment, self._folder, self._log = modules, dict(environment), folder, log
        self._popen: subprocess.Popen[bytes] | _Child | None = None
        self._control: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        return self._popen.pid if self._popen is not None else None

    def start(self) -> None:
        """Starts it early, so that its imports are in progress before the first part is needed."""
        self._ready()

    def adopt(self, pid: int, control: socket.socket) -> None:
        """Takes over a process that this one forked before it knew any secret."""
        self._popen, self._control = _Child(pid), control

    def fork(self, part: Part, call: Call, *, log: Path, environment: Mapping[str, str], lifeline: int) -> Forked:
        """Fork a part.

        Args:
            call: the function that the part runs.
            log: gets its output and its errors, appended.
            environment: all of it.
            lifeline: a descriptor; when its other end closes, the part ends.

        Raises:
            OSError: No process can be created.
        """
        request: ForkRequest = {"name": part.name, "target": call.target, "arguments": dict(call.arguments)}
        status, status_end = os.pipe2(os.O_CLOEXEC)
        try:
            with log.open("ab") as output, _text(json.dumps(dict(environment))) as environment_file:
                pid, pidfd = self._ask(
                    json.dumps(request).encode(), [lifeline, output.fileno(), environment_file, status_end]
                )
        except BaseException:
            os.close(status)
            raise
        finally:
            os.close(status_end)
        return Forked(pid, pidfd, status)

    def close(self) -> None:
        """Ends it, but nothing that was forked from it."""
        if self._control is not None:
            self._control.close()
        if self._popen is not None:
            self._popen.wait()
        self._popen = self._control = None

    def _ask(self, request: bytes, descriptors: list[int]) -> tuple[int, int]:
        control = self._ready()
        try:
            socket.send_fds(control, [request], descriptors)
            answer, received, _, _ = socket.recv_fds(control, MAX_ANSWER_BYTES, 1)
        except ConnectionError:  # it has ended without reading the request
            answer = b""
        if not answer:
            raise ChildProcessError(f"the process that parts are forked from has ended, see {self._log}")
        return int(json.loads(answer)["pid"]), received[0]

    def _ready(self) -> socket.socket:
        if self._popen is not None and self._control is not None and self._popen.poll() is None:
            return self._control
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            command = python_module("app.standalone.preloaded_parent", str(number), *self._modules)
            self._popen = spawn(command, env=self._environment, log=self._log, folder=self._folder, pass_fds=[number])
        self._control = ours
        return ours


class _Child:
    """A forked child, with the part of Popen's interface that is needed here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._has_ended = False

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        return self._wait(0) or 0

    def _wait(self, options: int) -> int | None:
        if not self._has_ended:
            self._has_ended = os.waitpid(self.pid, options)[0] == self.pid
        return 0 if self._has_ended else None


@contextlib.contextmanager
def _text(text: str) -> Any:
    """Returns a file in memory that can be read once from its beginning."""
    descriptor = os.memfd_create("environment")
    try:
        os.write(descriptor, text.encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def tail(log: Path, lines: int = 12) -> str:
    """Returns the last lines of a log, to show why a part has ended."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
