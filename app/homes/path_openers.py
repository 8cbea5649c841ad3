"""Opens a path that cannot leave its root, whatever others do to the folders meanwhile. Two implementations, one
contract.

`KernelOpener` asks the kernel (openat2 with RESOLVE_BENEATH, Linux 5.6): links inside the root work, those that lead
out fail. `StepOpener` is for kernels and seccomp filters without it: one component at a time, without any link. Both
raise LeadsOut if a path would leave, and otherwise the OSError of os.open. This module does not depend on homes.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import stat
from functools import lru_cache
from typing import Protocol

from app.homes.errors import LeadsOut

OPENAT2 = 437
"""Its number on every architecture of Linux that Python's wheels are made for."""
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
TRIES = 64
"""The kernel gives up with EAGAIN when folders are renamed while it goes through `..` of a link."""
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
logger = logging.getLogger(__name__)


class Opener(Protocol):
    follows_links: bool

    def open(self, root_fd: int, path: str, flags: int, mode: int = 0, *, follow: bool = True) -> int:
        """A descriptor of a path that stays below an open folder.

        Args:
            path: relative to it; empty: the folder itself.
            flags: of open(2). With O_PATH | O_NOFOLLOW a link at the end is opened itself.
            mode: of a file that is made.
            follow: False refuses every link.

        Raises:
            LeadsOut: The path, or a link on its way, leads out of the folder.
            OSError: As open(2).
        """
        ...


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class KernelOpener:
    follows_links = True

    def __init__(self) -> None:
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        self._syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.POINTER(_How), ctypes.c_size_t]

    def open(self, root_fd: int, path: str, flags: int, mode: int = 0, *, follow: bool = True) -> int:
        """See `Opener.open`."""
        resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (0 if follow else RESOLVE_NO_SYMLINKS)
        how = _How(flags | os.O_CLOEXEC, mode if flags & os.O_CREAT else 0, resolve)
        raw = _encode(path)
        for _ in range(TRIES):
            fd = self._syscall(OPENAT2, root_fd, raw, ctypes.byref(how), ctypes.sizeof(how))
            if fd >= 0:
                return int(fd)
            code = ctypes.get_errno()
            if code not in (errno.EAGAIN, errno.EINTR):
                break
        if code in (errno.EXDEV, errno.ELOOP):
            raise LeadsOut(path)
        raise OSError(code, os.strerror(code), path)


class StepOpener:
    follows_links = False

    def open(self, root_fd: int, path: str, flags: int, mode: int = 0, *, follow: bool = True) -> int:  # noqa: ARG002  # the signature is that of the other openers
        """See `Opener.open`."""
        _encode(path)
        names = (path or ".").split("/")
        if names[0] == "" or ".." in names:
            raise LeadsOut(path)
        *above, last = [name for name in names if name not in ("", ".")] or ["."]
        is_folder = bool(flags & os.O_DIRECTORY) or names[-1] in ("", ".")  # as everywhere: a/ and a/. are folders
        fd = os.open(".", _STEP | os.O_DIRECTORY, dir_fd=root_fd)
        try:
            for name in [*above, last] if is_folder else above:
                below = _enter_folder(name, fd)
                os.close(fd)
                fd = below
            if is_folder:
                return os.open(".", flags | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
            return _open_last(last, flags, mode, fd)
        finally:
            os.close(fd)


@lru_cache(maxsize=1)
def best_opener() -> Opener:
    """The kernel's way, if this kernel lets us."""
    kernel = KernelOpener()
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(kernel.open(fd, ".", os.O_PATH | os.O_DIRECTORY))
    except OSError as error:
        logger.warning("No openat2 here (%s): symbolic links in data homes are refused, all of them.", error.strerror)
        return StepOpener()
    finally:
        os.close(fd)
    return kernel


def _enter_folder(name: str, folder_fd: int) -> int:
    """One folder down. Opened first and looked at then: what was looked at is what was opened."""
    fd = os.open(name, _STEP, dir_fd=folder_fd)
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        return fd
    os.close(fd)
    if stat.S_ISLNK(mode):
        raise LeadsOut(name)
    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)


def _open_last(name: str, flags: int, mode: int, folder_fd: int) -> int:
    try:
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder_fd)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise LeadsOut(name) from None
        raise
    if flags & os.O_PATH and not flags & os.O_NOFOLLOW and stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise LeadsOut(name)
    return fd


def _encode(path: str) -> bytes:
    raw = os.fsencode(path) or b"."
    if b"\0" in raw:  # C would see a shorter path
        raise ValueError("embedded null byte")
    return raw
