"""Shared code of every sub-command: exit codes, error output, and the signals that end a command that runs until it is
interrupted."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from app.kit.errors import ModelmillError, TooMany


class Exit(IntEnum):
    """Exit codes that scripts may rely on."""

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
    """The command has finished and printed everything; code is its exit code."""

    def __init__(self, code: Exit) -> None:
        super().__init__(code)
        self.code = code


class Unreachable(ModelmillError, status=503, code="UNREACHABLE", can_retry=True):
    """The service does not answer."""


class CannotStart(ModelmillError, status=400, code="CANNOT_START"):
    """Something on this machine prevents the start."""


def exit_code(error: ModelmillError) -> Exit:
    """Returns the exit code: 4xx is an input error, 5xx an error of the service; no answer is neither."""
    if isinstance(error, Unreachable):
        return Exit.UNREACHABLE
    if error.status == 404:
        return Exit.NOT_FOUND
    if error.status == TooMany.status:
        return Exit.BUSY
    return Exit.BAD_INPUT if error.status < 500 else Exit.FAILED


def complain(error: ModelmillError) -> None:
    """Prints the cause and the hint to stderr, a sentence each; several problems of a text get a line each."""
    print(f"modelmill: {error.message}", file=sys.stderr)
    problems = error.detail.get("problems")
    for one in problems[1:] if isinstance(problems, list) else ():
        print(f"  {one['path']}: {one['message']}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)


@contextmanager
def signals_end() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP end the command like Ctrl-C. Only the first signal counts, so that stopping is not
    interrupted."""

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
