"""The process from which parts are forked: `python -m app.standalone.preloaded_parent FD MODULE…`

    supervisor ── control socket (FD) ──▶ preloaded parent ── fork ──▶ subreaper ── fork ──▶ part

It imports these modules once, calls `rehearse` of those that have one, and freezes existing objects, so each part
shares their memory until it writes to it, and starts in milliseconds. It has no secrets: each part reads its own from a
separate file. It runs no part's code, has one thread, and ends when the supervisor has closed its end of the socket.

A ForkRequest comes with the lifeline, the log, the part's environment (JSON) and the pipe for the exit code from its
subreaper. The answer is {pid} with a pidfd of the subreaper.
"""

from __future__ import annotations

import importlib
import json
import linecache
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypedDict

from app.kit.process import own_process
from app.kit.process.own_process import set_title
from app.kit.text.json_values import JsonObject
from app.standalone import subreaper

UNUSED = ("opentelemetry.sdk.metrics", "watchdog")
"""Optional dependencies of redis-py and Dramatiq, which are only needed for tracing and development."""
MAX_REQUEST_BYTES = 1 << 16


class ForkRequest(TypedDict):
    name: str
    target: str
    """`module:function`, called with the arguments."""
    arguments: JsonObject


def main() -> NoReturn:
    preload(sys.argv[2:])
    serve(socket.socket(fileno=int(sys.argv[1])))


def preload(modules: Sequence[str]) -> None:
    """Imports the modules, and calls `rehearse` in those that have it."""
    unused = UNUSED[1:] if any(name.startswith("OTEL_") for name in os.environ) else UNUSED
    with own_process.without_collector(), _hide_modules(unused):
        for module in modules:
            preloaded = importlib.import_module(module)
            getattr(preloaded, "rehearse", lambda: None)()
            linecache.clearcache()  # Pydantic has read the source for the docstrings of fields
    own_process.freeze_for_fork()


@contextmanager
def _hide_modules(modules: Sequence[str]) -> Iterator[None]:
    """Makes imports of these modules fail as if they were not installed."""
    absent: Any = dict.fromkeys(modules)
    sys.modules.update(absent)
    yield
    for module in modules:
        del sys.modules[module]


def serve(control: socket.socket) -> NoReturn:
    """Forks on request, until the other end of the socket is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # only the supervisor's end stops this process
        signal.signal(number, signal.SIG_IGN)
    set_title("modelmill preloaded")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps subreapers
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST_BYTES, 4)
        if not message:
            os._exit(0)  # the supervisor is gone
        pid = os.fork()
        if pid == 0:
            control.close()
            _hold(json.loads(message), *descriptors)
        pidfd = os.pidfd_open(pid)
        socket.send_fds(control, [json.dumps({"pid": pid}).encode()], [pidfd])
        for descriptor in (pidfd, *descriptors):
            os.close(descriptor)


def _hold(request: ForkRequest, lifeline: int, log: int, environment: int, status: int) -> NoReturn:
    """Runs in the subreaper."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    set_title(f"modelmill {request['name']} subreaper")
    for number in (1, 2):
        os.dup2(log, number)
    os.close(log)
    code = subreaper.hold(lifeline, lambda: _run(request, environment, (lifeline, status)), childs=[environment])
    os.write(status, str(code).encode())
    os._exit(code)


def _run(request: ForkRequest, environment: int, of_subreaper: tuple[int, ...]) -> NoReturn:
    """Runs in the part."""
    for descriptor in of_subreaper:
        os.close(descriptor)
    set_title(f"modelmill {request['name']}")
    run_to_end(lambda: _call(request, environment))


def _call(request: ForkRequest, environment: int) -> None:
    with os.fdopen(environment, encoding="utf-8") as pipe:
        variables = json.load(pipe)
    os.environ.clear()
    os.environ.update(variables)
    module, _, function = request["target"].partition(":")
    getattr(importlib.import_module(module), function)(**request["arguments"])


def fork_to_run(call: Callable[[], int | None]) -> int:
    """Fork a process of a part.

    Args:
        call: what it does; returns its exit code, or None for 0.

    Returns:
        Its pid.
    """
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        run_to_end(call)
    return pid


def exit_code(status: int) -> int:
    """Returns the exit code of a waited-for process in the form of a shell: 128 plus the signal if it was killed."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def run_to_end(call: Callable[[], int | None]) -> NoReturn:
    """Runs a call in a forked process, which ends with it.

    Args:
        call: returns the exit code, or None for 0.
    """
    code = 1
    try:
        code = call() or 0
    except SystemExit as end:
        code = _compute_exit_code(end)
    except BaseException:  # noqa: BLE001  # the edge of the process: whatever it is goes to the part's log
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # threads and clean-ups of other parts are not waited for


def execute(command: list[str]) -> NoReturn:
    """Runs a part that is a separate program, under a subreaper that is forked like the others."""
    try:
        os.execvp(command[0], command)  # noqa: S606  # the command is the supervisor's
    except OSError as error:
        raise SystemExit(f"cannot run {command[0]}: {error.strerror}") from error


def _compute_exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    main()
