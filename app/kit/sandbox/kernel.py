"""Linux calls that Python does not provide. Each raises OSError."""

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
"""Empty for a 32-bit program, whose calls have other numbers."""
CAPABILITIES = 64
"""More than exist: numbers that a kernel does not know are refused."""
_CAPABILITY_VERSION = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """Integers are passed as 64 bits, buffers as their address."""
    plain = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _check_result(_libc.syscall(ctypes.c_long(number), *plain))


def prctl(option: int, value: int, pointer: ctypes.c_void_p | None = None) -> int:
    nothing = ctypes.c_void_p(None)
    return _check_result(_libc.prctl(option, ctypes.c_ulong(value), pointer or nothing, nothing, nothing))


def die_with_parent() -> None:
    """Makes the kernel kill this process as soon as the thread that started it ends."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Makes this process adopt the orphans of its children."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def unshare(flags: int) -> None:
    _check_result(_libc.unshare(flags))


def setns(descriptor: int, kind: int) -> None:
    _check_result(_libc.setns(descriptor, kind))


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, data: str | None = None) -> None:
    """mount(2).

    Args:
        source: None: none, for example if only flags change.
        kind: the type of the file system; None if it is already known.
        data: options for the file system.

    Raises:
        OSError: The kernel refuses.
    """
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _check_result(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]))


def drop_rights() -> None:
    """Drops all capabilities of this process, permanently, also for programs that it starts, whoever owns them."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    for number in range(CAPABILITIES):
        with contextlib.suppress(OSError):  # only root can, and only root needs to
            prctl(PR_CAPBSET_DROP, number)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _check_result(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def _check_result(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
