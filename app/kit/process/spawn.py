"""Starts a program, and ends it with all its descendants."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs one of our modules, regardless of the content of the folder it starts in."""
    return [sys.executable, "-P", "-m", module, *arguments]


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
    """Starts a command, by default in its own session and with empty input.

    Args:
        env: its complete environment; nothing is inherited.
        log: file that its output and errors are appended to, overriding the next three.
        stdin: as in subprocess.Popen, like the next two.
        stdout: None: inherited.
        stderr: None: inherited.
        folder: its working directory; None: ours.
        pass_fds: descriptors that it inherits.
        has_session: True: Ctrl-C and signals to our group do not reach it. False: it belongs to our group and ends with
            it.

    Raises:
        OSError: The program or the folder does not exist, or no process can be created.
        ValueError: An argument contains a NUL.
    """
    with log.open("ab") if log is not None else nullcontext() as output:
        return subprocess.Popen(
            list(command),
            env=dict(env),
            cwd=folder,
            stdin=stdin,
            stdout=output or stdout,
            stderr=subprocess.STDOUT if output else stderr,
            pass_fds=tuple(pass_fds),
            start_new_session=has_session,
        )


def signal_group(pid: int, number: int) -> None:
    """Sends a signal to a process that leads a session and to all its descendants, as far as they exist."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
