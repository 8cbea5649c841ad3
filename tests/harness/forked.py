"""Processes that begin as copies of one that has imported what they need: a Python program starts in a moment.

They are processes like any other: with an environment, a log and an exit code of their own, the first of their session.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.harness.paths import REPOSITORY
from tests.harness.processes import send, with_descendants

PRELOADED = ["tests.harness.first_process", "tests.harness.preloaded", "tests.harness.forked"]
"""What the process has imported of which all are copies; none of them may start a thread."""
CONTEXT = multiprocessing.get_context("forkserver")
_begun: list[BaseProcess] = []


def share_first_process() -> None:
    """The process of which all are copies is begun now, for those that this one forks, too: it takes three seconds of
    the processor. They cannot wait for it, as their library does, for it is no child of theirs."""
    CONTEXT.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()
    os.register_at_fork(after_in_child=take_over)


def take_over() -> None:
    """In a child of it, or of the process that began it."""
    forkserver._forkserver.ensure_running = resource_tracker.ensure_running  # type: ignore[method-assign]


class Copy:
    """A process that runs a function, as far as it goes to be used like subprocess.Popen.

    target: called with a connection and the arguments; closes the connection once it leads its session and has a log,
    for it may be signalled as such, and read.
    """

    def __init__(self, target: Callable[..., None], arguments: Sequence[Any]) -> None:
        CONTEXT.set_forkserver_preload(PRELOADED)
        begins, begun = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(target=target, args=(begun, *arguments))
        self._process.start()
        begun.close()
        begins.poll(None)
        begins.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self._returncode: int | None = None

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode if self._returncode is None else self._returncode

    @returncode.setter
    def returncode(self, code: int) -> None:
        """Of one that goes on alone."""
        self._returncode = code

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.returncode
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code


class Forked(Copy):
    """Runs a function of a module with these arguments; what it returns is the exit code.

    target: "module:function". errors: gets what is written to the standard error, in place of the log.
    """

    def __init__(
        self,
        target: str,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        errors: Path | None = None,
    ) -> None:
        self.args = [target, *arguments]
        super().__init__(_run, (self.args, dict(environment), (str(log), str(errors or log))))
        _begun.append(self._process)


@atexit.register
def end_left_over() -> None:
    """Whoever a failed test has left running ends with this process, which would wait for its end otherwise."""
    running = [process.pid for process in _begun if process.pid is not None and process.exitcode is None]
    send([*(-pid for pid in running), *with_descendants(running)], signal.SIGKILL)  # groups, and sessions of their own


def _run(begun: Connection, arguments: list[str], environment: dict[str, str], logs: tuple[str, str]) -> None:
    os.setsid()
    os.chdir(REPOSITORY)
    for number, log in enumerate(logs, 1):
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)
    begun.close()
    become(environment)
    sys.argv = arguments
    module, _, function = arguments[0].partition(":")
    sys.exit(getattr(import_module(module), function)())


def become(environment: Mapping[str, str]) -> None:
    """In a copy: no more of the process of which it is one than what that has imported."""
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    _extend_path(environment.get("PYTHONPATH", ""))
    multiprocessing.set_start_method("fork", force=True)  # as in any program, and not as this one began


def _extend_path(path: str) -> None:
    """As the interpreter does at its start; what is imported already stays what it is."""
    sys.path[:0] = [folder for folder in path.split(os.pathsep) if folder and folder not in sys.path]
