"""The permanent process of `modelmill up`, which runs until Ctrl-C:
`python -m app.standalone.run LAUNCH_FD LOCK_FD [--sample] [--once]`.

It imports what the parts need, and nothing that only the preparation needed. Its imports are shared with the parts.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from app.kit.cli.command import Exit, complain, exit_code
from app.kit.errors import ModelmillError
from app.kit.process.spawn import python_module, spawn
from app.kit.process.title import set_title
from app.standalone import preloaded_parent
from app.standalone.data_folder import Lock
from app.standalone.launch import Launch, Stack, run
from app.standalone.preload import PRELOADED

YELLOW, PLAIN = "\033[33m", "\033[0m"
SAMPLE = "app.conversion.cli.sample"


def main() -> int:
    launch_fd, lock_fd, *options = sys.argv[1:]
    parent, control = _fork_parent(int(launch_fd), int(lock_fd))
    with os.fdopen(int(launch_fd), encoding="utf-8") as file:
        launch = Launch.from_json(file.read())
    lock = Lock.adopted(launch.data, int(lock_fd))
    try:
        return _run(
            launch, lock, is_sample="--sample" in options, is_once="--once" in options, parent=(parent, control)
        )
    except ModelmillError as error:
        complain(error)
        return exit_code(error)


def _fork_parent(launch_fd: int, lock_fd: int) -> tuple[int, socket.socket]:
    """Imports what the parts need and forks their parent, so that this process shares its memory, too. Must be called
    before the launch is read, which has the secrets of all parts."""
    preloaded_parent.preload(PRELOADED)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.close(launch_fd)
        os.close(lock_fd)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        preloaded_parent.serve(theirs)
    theirs.close()
    set_title("modelmill up")
    return pid, ours


def _run(launch: Launch, lock: Lock, *, is_sample: bool, is_once: bool, parent: tuple[int, socket.socket]) -> int:
    with _stop_signals() as stopper:
        try:
            with run(launch, lock, notice, on_supervisor=stopper.hurries, parent=parent) as stack:
                print(f"Modelmill is up at {stack.url}   logs: {stack.data.logs}", flush=True)
                for note in launch.after:
                    notice(note)
                code = _serve(stack, launch.token, is_sample=is_sample or is_once, is_once=is_once)
                stopper.is_stopping = True
        except KeyboardInterrupt:
            code = Exit.CANCELLED if is_once else Exit.OK
    print("Everything is stopped.", flush=True)
    return code


def _serve(stack: Stack, token: str, *, is_sample: bool, is_once: bool) -> Exit:
    if is_sample:
        is_done = _convert_sample(stack, token)
        if is_once:
            return Exit.OK if is_done else Exit.FAILED
    print(f"Serving at {stack.url} until Ctrl-C.", flush=True)
    threading.Event().wait()
    return Exit.OK


def _convert_sample(stack: Stack, token: str) -> bool:
    """Converts the sample like a user, in a separate process, since the libraries for it are not needed afterwards."""
    command = python_module(SAMPLE, stack.url, str(stack.data.root / "sample"))
    with spawn(command, env={**os.environ, "MODELMILL_TOKEN": token}, has_session=False) as sample:
        try:
            return sample.wait() == 0
        finally:
            sample.terminate()


def notice(text: str) -> None:
    print(f"{YELLOW}{text}{PLAIN}" if sys.stdout.isatty() else text, flush=True)


class _Stopper:
    """The first signal ends the serving; another one ends the grace of what is being stopped."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._supervisor: Any = None

    def hurries(self, supervisor: Any) -> None:
        self._supervisor = supervisor

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if not self.is_stopping:
            self.is_stopping = True
            raise KeyboardInterrupt
        if self._supervisor is not None:
            self._supervisor.hurry()


@contextmanager
def _stop_signals() -> Iterator[_Stopper]:
    stopper = _Stopper()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stopper) for number in numbers}
    try:
        yield stopper
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
