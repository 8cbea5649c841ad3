"""The permanent process of `modelmill up`, which runs until Ctrl-C:
`python -m app.standalone.run LAUNCH_FD LOCK_FD [--sample] [--once] [--train]`.

It imports what the parts need, and nothing that only the preparation needed. Its imports are shared with the parts.
SIGUSR1 starts training (see training_setup).
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, Self

from app.kit.cli.command import Exit, complain, exit_code
from app.kit.errors import ModelmillError
from app.kit.process.own_process import give_back, set_title
from app.kit.process.spawn import python_module, spawn
from app.standalone import preloaded_parent
from app.standalone.data_folder import Lock
from app.standalone.launch import TRAINING_SIGNAL, Launch, Stack, run
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
        return _run(launch, lock, options, (parent, control))
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


def _run(launch: Launch, lock: Lock, options: list[str], parent: tuple[int, socket.socket]) -> int:
    is_once, is_sample = "--once" in options, "--sample" in options
    has_training = "--train" in options
    with _stop_signals() as stopper, _TrainingRequests() as requests:
        try:
            with run(launch, lock, notice, stopper.hurries, parent, has_training=has_training) as stack:
                print(f"Modelmill is up at {stack.url}   logs: {stack.data.logs}", flush=True)
                for note in launch.after:
                    notice(note)
                code = Exit.OK
                if is_sample or is_once:
                    code = Exit.OK if _convert_sample(stack, launch.token) else Exit.FAILED
                if not is_once:
                    _serve(stack, requests)
                stopper.is_stopping = True
        except KeyboardInterrupt:
            code = Exit.CANCELLED if is_once else Exit.OK
    print("Everything is stopped.", flush=True)
    return code


def _serve(stack: Stack, requests: _TrainingRequests) -> NoReturn:
    """Serves until a signal raises KeyboardInterrupt."""
    print(f"Serving at {stack.url} until Ctrl-C.", flush=True)
    give_back()
    while True:
        requests.wait()
        notice("A Ray cluster is started on this machine; start with --train to have it from the beginning.")
        stack.start_training()


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


class _TrainingRequests:
    """Receives TRAINING_SIGNAL."""

    def __enter__(self) -> Self:
        self._pipe, self._end = os.pipe2(os.O_CLOEXEC)
        self._before = signal.signal(TRAINING_SIGNAL, lambda _number, _frame: os.write(self._end, b"."))
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(TRAINING_SIGNAL, self._before)
        os.close(self._pipe)
        os.close(self._end)

    def wait(self) -> None:
        """Returns when one has come."""
        os.read(self._pipe, 64)


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
