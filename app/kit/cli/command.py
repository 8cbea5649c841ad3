"""What every sub-command shares: exit codes, how an error is told to whoever typed the command, and the signals that
end what shows something until it is interrupted."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from app.kit.errors import ModelmillError, TooMany


class Exit(IntEnum):
    """What a script may rely on."""

    OK = 0
    FAILED = 1
    BAD_INPUT = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    BUSY = 5
    BELOW = 6
    CANCELLED = 130


EPILOG = (
    "Exit codes: 0 ok · 1 the conversion, the task or the service failed · 2 bad input or usage · "
    "3 service not reachable · 4 not found · 5 busy, try again later · 6 below the quality asked for · 130 cancelled."
)


class CommandFailed(Exception):
    """The command is over and has said everything; code is its exit code."""

    def __init__(self, code: Exit) -> None:
        super().__init__(code)
        self.code = code


class Unreachable(ModelmillError):
    """The service does not answer."""

    status = 503
    code = "UNREACHABLE"
    can_retry = True


class CannotStart(ModelmillError):
    """Something on this machine is in the way of starting."""

    status = 400
    code = "CANNOT_START"


def exit_code(error: ModelmillError) -> Exit:
    """4xx is what the user gave, 5xx is ours; no answer is neither."""
    if isinstance(error, Unreachable):
        return Exit.UNREACHABLE
    if error.status == 404:
        return Exit.NOT_FOUND
    if error.status == TooMany.status:
        return Exit.BUSY
    return Exit.BAD_INPUT if error.status < 500 else Exit.FAILED


def complain(error: ModelmillError) -> None:
    """One sentence for the cause, one for what to do, on stderr; of several problems with a text, each has its line."""
    print(f"modelmill: {error.message}", file=sys.stderr)
    problems = error.detail.get("problems")
    for one in problems[1:] if isinstance(problems, list) else ():
        print(f"  {one['path']}: {one['message']}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)


@contextmanager
def signals_end() -> Iterator[None]:
    """SIGTERM and SIGHUP end it as Ctrl-C does. Only the first counts: what is being stopped is not left half-way."""

    def interrupt(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
