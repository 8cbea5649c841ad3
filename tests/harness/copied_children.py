"""Children of the tests' programs that begin as copies, as those do (`tests/harness/forked.py`): fork servers of
sandboxes, workers of nodes, and commands that serve, whose libraries take half a second of the processor and more.

The command, the environment, the folder, the descriptors, the session and the exit code are those of the command that
the product starts. What is started by a program that is no copy, as by `modelmill up`, is that command, and so it is
where a test looks for what a program has left behind.
"""

from __future__ import annotations

import fcntl
import multiprocessing.process
import os
import runpy
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from multiprocessing import reduction
from pathlib import Path
from typing import Any

from app.kit.process import own_process
from app.kit.process import spawn as real
from tests.harness.forked import Copy, become
from tests.harness.surroundings import MARK

COPIED = (
    "app.cli.main",
    "app.kit.sandbox.fork_server",
    "app.edge.joint.edge",
    "app.edge.joint.cloud",
    "app.edge.video.runner.main",
    "app.edge.video.stage_host.host",
    "tests.harness.sftp_on_demand",
)
ALL_DESCRIPTORS = 1 << 20
"""Descriptors from here on are nobody's."""


def spawn(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = None,
    stderr: int | None = None,
    folder: Path | None = None,
    pass_fds: Collection[int] = (),
    has_session: bool = True,
) -> subprocess.Popen[bytes]:
    """As `app.kit.process.spawn.spawn`, which it calls for other programs than those that are copied."""
    is_traced = any(name.startswith("OTEL_") for name in env)  # which is read when a library is imported
    is_marked = MARK in os.environ  # what such a program starts is told by what it inherits, and by what it is below
    is_usual = has_session and (stdin, stdout, stderr) == (subprocess.DEVNULL, None, None)
    if module_of(command) not in COPIED or is_traced or is_marked or not is_usual:
        return real.spawn(
            command,
            env=env,
            log=log,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            folder=folder,
            pass_fds=pass_fds,
            has_session=has_session,
        )
    empty = os.open(os.devnull, os.O_RDONLY)
    output = [1, 2] if log is None else [os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)] * 2
    try:
        passed = {number: _Descriptor(number) for number in pass_fds}
        passed |= {number: _Descriptor(descriptor) for number, descriptor in enumerate((empty, *output))}
        copy: Any = Copied(list(command), dict(env), str((folder or Path.cwd()).resolve(strict=True)), passed)
    finally:
        for descriptor in {empty, *output} - {1, 2}:
            os.close(descriptor)
    return copy


def module_of(command: Sequence[str]) -> str:
    """The module that a command runs; nothing for another command."""
    program, *arguments = command
    arguments = arguments[1:] if arguments[:1] == ["-P"] else arguments
    return arguments[1] if program == sys.executable and arguments[:1] == ["-m"] else ""


class Copied(Copy):
    """As far as the product uses subprocess.Popen."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(_run, arguments)
        multiprocessing.process._children.discard(self._process)  # type: ignore[attr-defined]  # it may live longer


class _Descriptor:
    """One of this process, which becomes one of another."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self._number),)


def _received(duplicate: Any) -> int:
    number: int = duplicate.detach()
    return number


def _run(begun: Any, command: list[str], environment: dict[str, str], folder: str, passed: dict[int, int]) -> None:
    os.setsid()
    begun.close()
    os.chdir(folder)
    _take(passed)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    become(environment)
    if "-P" not in command:
        sys.path.insert(0, folder)
    module = module_of(command)
    own_process.set_title("\0".join(command))
    sys.argv = command[command.index(module) :]
    sys.modules.pop(module, None)  # it is a program here, and not what others import
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _take(passed: dict[int, int]) -> None:
    """No other descriptors than these, with their numbers there."""
    behind = max(passed) + 1
    aside = {number: fcntl.fcntl(descriptor, fcntl.F_DUPFD, behind) for number, descriptor in passed.items()}
    for number, descriptor in aside.items():
        os.dup2(descriptor, number)
    first = 3
    for number in [*sorted(number for number in passed if number >= first), ALL_DESCRIPTORS]:
        os.closerange(first, number)
        first = number + 1
