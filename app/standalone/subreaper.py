"""Runs one command so that nothing of it outlives the supervisor: `python subreaper.py LIFELINE_FD -- command …`.

    supervisor ── lifeline (pipe) ──▶ subreaper ──▶ command ──▶ whatever it starts, in whatever session

The supervisor alone holds the writing end of the lifeline; when the supervisor dies, however it dies, the subreaper
reads the end of the pipe. Orphans below it become its own children (PR_SET_CHILD_SUBREAPER): when the command ends (a
killed Dramatiq master leaves its workers behind), it kills and reaps what is left, then exits as the command did.
SIGTERM is passed on once; the second one kills everything at once.

If the subreaper itself is killed, the kernel kills the command, and the supervisor kills the rest of the process group.
Runs as a plain script on the standard library alone (python -I -S), in some 15 ms.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NO_SUCH_COMMAND = 127
_libc = ctypes.CDLL(None)
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> NoReturn:
    lifeline, command = int(sys.argv[1]), sys.argv[3:]
    os.set_inheritable(lifeline, False)
    os._exit(hold(lifeline, lambda: _execute(command)))


def hold(lifeline: int, run: Callable[[], NoReturn], *, childs: Sequence[int] = ()) -> int:
    """Fork, let the child run, and ensure that nothing of it remains.

    Args:
        lifeline: the pipe whose other end the supervisor holds.
        run: what the child does; it ends the child itself.
        childs: descriptors that are the child's alone.

    Returns:
        The exit code as a shell has it: of a process that was killed, 128 and the signal.
    """
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    signals_in, signals_out = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(signals_out)
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: None)
    child = _start(run, (signals_in, signals_out))
    for descriptor in childs:
        os.close(descriptor)
    status = _watch(child, lifeline, signals_in)
    _kill_all_below()
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
    return code if code >= 0 else 128 - code


def _start(run: Callable[[], NoReturn], pipe: tuple[int, int]) -> int:
    subreaper = os.getpid()
    child = os.fork()
    if not child:
        _begin(run, pipe, subreaper)
    return child


def _begin(run: Callable[[], NoReturn], pipe: tuple[int, int], subreaper: int) -> NoReturn:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != subreaper:  # the subreaper died before the previous line
        os._exit(1)
    signal.set_wakeup_fd(-1)
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    for descriptor in pipe:
        os.close(descriptor)
    run()


def _execute(command: list[str]) -> NoReturn:
    try:
        os.execvp(command[0], command)  # noqa: S606  # the command is the supervisor's
    except OSError as error:
        print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(NO_SUCH_COMMAND)


def _watch(child: int, lifeline: int, signals: int) -> int | None:
    """Waits until the command ends or has to end.

    Returns:
        Its wait status; None if it has to be killed.
    """
    ended = os.pidfd_open(child)
    is_ending = False
    while True:
        readable = select.select([ended, lifeline, signals], [], [])[0]
        if ended in readable:
            return os.waitpid(child, 0)[1]
        if lifeline in readable:
            return None
        for number in os.read(signals, 64):
            if number not in STOP_SIGNALS:
                continue
            if is_ending:
                return None
            is_ending = True
            signal.pidfd_send_signal(ended, signal.SIGTERM)


def _kill_all_below() -> None:
    """Kills and reaps every descendant: each pass kills what is visible, and orphans become children of this
    process."""
    while True:
        for pid in _list_children(os.getpid()):
            _kill_tree(pid)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _kill_tree(pid: int) -> None:
    below = _list_children(pid)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    for child in below:
        _kill_tree(child)


def _list_children(pid: int) -> list[int]:
    """Returns the direct children of every thread of a process."""
    pids: list[int] = []
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            pids += map(int, (thread / "children").read_text().split())
    except OSError:
        pass  # it has ended in the meantime
    return pids


def _prctl(option: int, value: int) -> None:
    _libc.prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
