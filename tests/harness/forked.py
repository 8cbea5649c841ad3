"""Processes that begin as copies of one that has imported what they need: a Python program starts in a moment.

They are processes like any other: with an environment, a log and an exit code of their own, the first of their session.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from tests.harness.paths import REPOSITORY

PRELOADED = [
    "app.kit.observability.logs",
    "app.edge.agent.agent",
    "app.settings",
    "tests.harness.agent.program",
    "tests.harness.forked",
]
"""What the process has imported of which all are copies; none of them may start a thread."""
_context = multiprocessing.get_context("forkserver")


class Forked:
    """Runs module.main() with these arguments; what that returns is its exit code. As far as it goes it is to be used
    like subprocess.Popen."""

    def __init__(self, module: str, arguments: Sequence[str], *, environment: Mapping[str, str], log: Path) -> None:
        self.args = [module, *arguments]
        _context.set_forkserver_preload(PRELOADED)
        self._process = _context.Process(target=_run, args=(self.args, dict(environment), str(log)))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code


def _run(arguments: list[str], environment: dict[str, str], log: str) -> None:
    os.setsid()
    os.chdir(REPOSITORY)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(descriptor, number)
    os.close(descriptor)
    sys.exit(import_module(arguments[0]).main())
