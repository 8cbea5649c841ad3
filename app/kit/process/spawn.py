"""Starting a program beside this one, and ending it with all that it has started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours, whatever folder it starts in holds."""
    return [sys.executable, "-P", "-m", module, *arguments]


def spawn(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path | None = None,
    is_quiet: bool = False,
    folder: Path | None = None,
    pass_fds: Collection[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, so that Ctrl-C and signals to our group do not reach it; its input is
    empty.

    Args:
        env: all of its environment; nothing is inherited.
        log: gets its output and its errors, appended; None: they go where ours go.
        is_quiet: without a log, its output goes nowhere and its errors where ours go.
        folder: where it starts; None: where we are.
        pass_fds: descriptors that it has, too.

    Raises:
        OSError: The program or the folder is not there, or there is no room for a process.
        ValueError: An argument holds a NUL.
    """
    with ExitStack() as stack:
        output: IO[bytes] | int | None = subprocess.DEVNULL if is_quiet else None
        if log is not None:
            output = stack.enter_context(log.open("ab"))
        return subprocess.Popen(
            list(command),
            env=dict(env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if log is not None else None,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )


def signal_group(pid: int, number: int) -> None:
    """To a process that leads a session and to all that it has started, as far as they are there."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
