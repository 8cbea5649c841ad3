"""Starting a program beside this one, and ending it with all that it has started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours, whatever folder it starts in holds."""
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
    """Start a command, by default in a session of its own and with an empty input.

    Args:
        env: all of its environment; nothing is inherited.
        log: gets its output and its errors, appended, whatever the next three say.
        stdin: as subprocess.Popen has it, like the next two.
        stdout: None: where ours goes.
        stderr: None: where ours go.
        folder: where it starts; None: where we are.
        pass_fds: descriptors that it has, too.
        has_session: Ctrl-C and signals to our group do not reach it. Without, it is one of our group and ends with it.

    Raises:
        OSError: The program or the folder is not there, or there is no room for a process.
        ValueError: An argument holds a NUL.
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
    """To a process that leads a session and to all that it has started, as far as they are there."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
