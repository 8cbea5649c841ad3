"""SFTP as a part of `modelmill up`: a process that listens with nothing loaded, and forks the server at a connection.
An unused server ends and releases its memory."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Sequence
from types import FrameType

from app.homes.sftp.sockets import listen
from app.standalone.preloaded_parent import exit_code, fork_to_run

UNUSED = 75
"""Exit code of a server that ended because nobody used it."""


class Ended(BaseException):
    """The process has to end, whatever it waits for."""


def serve(host: str, port: int, idle_s: float) -> None:
    """Until a signal ends it.

    Args:
        host: address or name; empty: every address of this machine.
        idle_s: a server ends when nobody was connected for so many seconds; the first one as soon as it has published
            its port and its fingerprint.

    Raises:
        CannotStart: The port is taken.
    """

    def tell(_number: int, _frame: FrameType | None) -> None:
        raise Ended

    sockets = listen(host, port)
    started = fork_to_run(lambda: _serve(sockets, 0.0))
    server: int | None = started
    try:
        signal.signal(signal.SIGTERM, tell)
        while True:
            os.waitid(os.P_PID, started, os.WEXITED | os.WNOWAIT)
            server = None  # once it is reaped, its pid may be given to another process
            code = exit_code(os.waitpid(started, 0)[1])
            if code != UNUSED:
                raise SystemExit(code)
            select.select(sockets, [], [])
            started = server = fork_to_run(lambda: _serve(sockets, idle_s))
    except Ended:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if server is not None:
            _end(server)


def _serve(sockets: Sequence[socket.socket], unused_s: float) -> int:
    from app.bootstrap.sftp import serve_homes

    return UNUSED if serve_homes(sockets, unused_s) else 0


def _end(server: int) -> None:
    """Ends the server gracefully, if it exists."""
    try:
        os.kill(server, signal.SIGTERM)
        os.waitpid(server, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
