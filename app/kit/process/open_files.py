"""The limit of open files and sockets of a process: raised from the low default of shells to the user's limit."""

from __future__ import annotations

import resource


def raise_limit() -> int:
    """Raises the soft limit, 1,024 in most shells, to the hard one. Returns the new limit.

    A web process has a socket for each viewer and each upload; a child process inherits its parent's limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
