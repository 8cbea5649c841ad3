"""How many files and sockets a process may have open: as many as its user may, not as few as shells begin with."""

from __future__ import annotations

import resource


def raise_limit() -> int:
    """Raise the soft limit, 1,024 in most shells, to the hard one. Returns the limit that holds from now on.

    A web process has a socket for each viewer and each upload; a child process begins with what its parent has.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
