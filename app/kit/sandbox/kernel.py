"""Calls of Linux that Python has no name for. Each raises OSError."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAPBSET_DROP = 24
MACHINE = platform.machine() if sys.maxsize > 1 << 32 else ""
"""Empty for a program of 32 bits, whose calls have other numbers."""
CAPABILITIES = 64
"""More than there are: the numbers of those that a kernel does not know are refused."""
_CAPABILITY_VERSION = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Integers go as 64 bits, buffers as their address."""
    plain = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *plain))


def prctl(option: int, value: int = 0, pointer: ctypes.c_void_p | None = None) -> int:
    nothing = ctypes.c_void_p(None)
    return _checked(_libc.prctl(option, ctypes.c_ulong(value), pointer or nothing, nothing, nothing))


def die_with_parent() -> None:
    """This process is killed as soon as the thread that started it ends."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """What the children of this process leave behind becomes its own children."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags))


def setns(descriptor: int, kind: int) -> None:
    _checked(_libc.setns(descriptor, kind))


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """mount(2).

    Args:
        source: None: none, as where only flags are changed.
        kind: of the file system; None where it is known already.
        data: options of the file system.

    Raises:
        OSError: The kernel refuses.
    """
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _checked(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]))


def drop_rights() -> None:
    """No capability is left to this process, and none comes back by what it starts, whoever owns that."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    for number in range(CAPABILITIES):
        with contextlib.suppress(OSError):  # only root can, and only root need
            prctl(PR_CAPBSET_DROP, number)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _checked(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
