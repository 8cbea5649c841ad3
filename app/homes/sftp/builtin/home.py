"""One user's home for an SFTP session: blocking operations with SFTP's types.

All of it goes through RootedDirectory, relative to the open home: no path of the host is ever built. Errors are
OSError. The folders of a home cannot be removed, and files are accepted where the web server accepts them; links are
never created, and operations that change something do not follow them.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from app.homes.counted_files import CountedFile
from app.homes.errors import PathRefused, QuotaExceeded, TooManyFiles, sentences
from app.homes.model import HOME_FOLDERS, Quota, check_may_enter
from app.homes.quota import Allowance, Measurement, UsageTracker
from app.homes.rooted_directory import RootedDirectory

OPEN_FILES = 64
"""Open files of a session; OpenSSH's sftp needs one, other clients a handful."""
WHOLE = ""
"""Sessions measure the home as a whole, not per folder."""
_WRITING = os.O_WRONLY | os.O_RDWR


@dataclass(frozen=True)
class SessionQuota:
    user: str
    quota: Quota
    usage: UsageTracker
    """Shared in the process, so that two sessions of a user see each other."""


class OpenFile:
    """A handle of a session.

    Args:
        fd: the handle closes it.
        flags: those of open(2).
        allowance: how much may still be written; None for a reading handle.
        counted: the file in the quota, shared by all handles; None for a reading handle.
    """

    def __init__(self, fd: int, flags: int, allowance: Allowance | None, counted: CountedFile | None) -> None:
        self.fd = fd
        self.is_append = bool(flags & os.O_APPEND)
        self.allowance = allowance
        self.counted = counted
        self.is_told_full = False

    def write(self, data: bytes, offset: int) -> None:
        with self._lock_count() as counted:
            if self.is_append:
                offset = os.fstat(self.fd).st_size
            self._grow(counted, offset + len(data))
            view = memoryview(data)
            while view:
                done = os.pwrite(self.fd, view, offset)
                view, offset = view[done:], offset + done

    def resize(self, size_bytes: int) -> None:
        with self._lock_count() as counted:
            self._grow(counted, size_bytes)
            os.ftruncate(self.fd, size_bytes)
            if counted is not None and self.allowance is not None and size_bytes < counted.size_bytes:
                self.allowance.free(counted.size_bytes - size_bytes)
                counted.size_bytes = size_bytes

    def _grow(self, counted: CountedFile | None, end: int) -> None:
        """Takes the room for the file to reach there; OSError EDQUOT without any."""
        if counted is None or self.allowance is None or end <= counted.size_bytes:
            return
        with _convert_quota_errors():
            self.allowance.take(end - counted.size_bytes)
        counted.size_bytes = end

    @contextmanager
    def _lock_count(self) -> Iterator[CountedFile | None]:
        """The counted bytes are those written: nobody truncates the file in between."""
        if self.counted is None:
            yield None
            return
        with self.counted.lock:
            yield self.counted


class SftpHome:
    """Owns the descriptors of the home and of the files that are open in it. One session uses it, from threads."""

    def __init__(self, root: Path, inner: str, quota: SessionQuota) -> None:
        self.quota = quota
        self._home = RootedDirectory.at(root, inner)
        self._files: set[OpenFile] = set()
        self._lock = threading.Lock()

    def close(self) -> None:
        for file in list(self._files):
            self.close_file(file)
        self._home.close()

    def open(self, path: bytes, flags: int) -> OpenFile:
        """With the mode of all files in homes: a client cannot create one that jobs could not read."""
        if len(self._files) >= OPEN_FILES:
            raise OSError(errno.EMFILE, f"a session may have {OPEN_FILES} files open")
        inner = inner_path(path)
        if flags & (_WRITING | os.O_CREAT | os.O_TRUNC):
            _may_enter(inner)
        fd = self._open_file(inner, flags & ~os.O_TRUNC)
        try:
            file = self._handle(fd, flags)
        except BaseException:
            os.close(fd)
            raise
        with self._lock:
            self._files.add(file)
        if flags & os.O_TRUNC and file.counted is not None:
            file.resize(0)
        return file

    def close_file(self, file: OpenFile) -> None:
        with self._lock:
            if file not in self._files:
                return
            self._files.discard(file)
        if file.counted is not None:
            freed = self.quota.usage.files.close(file.fd, file.counted)
            self.quota.usage.add(self.quota.user, WHOLE, -freed)
        os.close(file.fd)

    def scan(self, path: bytes) -> list[tuple[bytes, os.stat_result]]:
        """The names in a folder with their status; of a link its own."""
        status = []
        with self._home.folder(inner_path(path)) as fd:
            here = os.fstat(fd)
            status += [(b".", here), (b"..", here)]
            with os.scandir(fd) as entries:
                for entry in entries:
                    try:
                        status.append((os.fsencode(entry.name), entry.stat(follow_symlinks=False)))
                    except FileNotFoundError:
                        continue
        return status

    def stat(self, path: bytes) -> os.stat_result:
        return self._home.stat(inner_path(path))

    def lstat(self, path: bytes) -> os.stat_result:
        return self._home.lstat(inner_path(path))

    def read_link(self, path: bytes) -> bytes:
        """The text of the link, which is not its target here: outside links lead nowhere."""
        with self._home.parent(inner_path(path), follow=True) as (fd, name):
            return os.fsencode(os.readlink(name, dir_fd=fd))

    def make_folder(self, path: bytes) -> None:
        inner = inner_path(path)
        if inner in ("", *HOME_FOLDERS):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), inner)
        _may_enter(inner)
        with _convert_quota_errors(), self._compute_allowance().one_more():
            self._home.make_folder(inner)

    def remove_folder(self, path: bytes) -> None:
        self._home.remove_folder(_may_leave(inner_path(path)))
        self._count_removed(0)

    def remove(self, path: bytes) -> None:
        inner = _may_leave(inner_path(path))
        status = self._home.lstat(inner)
        self._home.remove(inner)
        self._count_removed(self._count_freed_bytes(status))

    def rename(self, source: bytes, target: bytes, *, replace: bool) -> None:
        """Neither from nor over a permanent folder: an empty one would be replaced by a folder."""
        leaving, entering = _may_leave(inner_path(source)), _may_enter(_may_leave(inner_path(target)))
        over = self._find_replaced(entering) if replace and leaving != entering else None
        self._home.rename(leaving, entering, replace=replace)
        if over is not None:
            self._count_removed(self._count_freed_bytes(over))

    def set_times(self, path: bytes, times_ns: tuple[int, int]) -> None:
        with self._open(path) as fd:
            os.utime(fd, ns=times_ns)

    def resize(self, path: bytes, size_bytes: int) -> None:
        file = self.open(path, os.O_WRONLY)
        try:
            file.resize(size_bytes)
        finally:
            self.close_file(file)

    def space(self) -> os.statvfs_result | tuple[int, int]:
        """The disk's, or with a quota (bytes of it, bytes used)."""
        limit = self.quota.quota
        if not limit.size_bytes:
            return os.statvfs(self._home.root_fd)
        return limit.size_bytes, self.quota.usage.usage(self.quota.user, limit, self._measure).total_bytes

    @contextmanager
    def _open(self, path: bytes) -> Iterator[int]:
        inner = inner_path(path)
        kind = self._home.lstat(inner).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):  # opening a device may have an effect on it
            raise PermissionError(errno.EACCES, "only files and folders have times to set")
        fd = self._home.open(inner, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
        try:
            yield fd
        finally:
            os.close(fd)

    def _handle(self, fd: int, flags: int) -> OpenFile:
        if not flags & _WRITING:
            return OpenFile(fd, flags, None, None)
        allowance = self._compute_allowance()
        allowance.refresh()
        return OpenFile(fd, flags, allowance, self.quota.usage.files.open(self.quota.user, fd))

    def _open_file(self, inner: str, flags: int) -> int:
        """One that is made counts."""
        if not flags & os.O_EXCL:
            with suppress(FileNotFoundError):
                return self._home.open_file(inner, flags & ~os.O_CREAT)
        if not flags & os.O_CREAT:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inner)
        with _convert_quota_errors(), self._compute_allowance().one_more():
            return self._home.open_file(inner, flags)

    def _count_removed(self, freed_bytes: int) -> None:
        """A file or folder less."""
        self.quota.usage.add(self.quota.user, WHOLE, -freed_bytes, files=-1)

    def _count_freed_bytes(self, status: os.stat_result) -> int:
        """Frees space by its removal: nothing while it has another name, or is still open for writing."""
        is_last = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        return status.st_size if is_last and not self.quota.usage.files.is_open(status) else 0

    def _find_replaced(self, inner: str) -> os.stat_result | None:
        with suppress(FileNotFoundError):
            return self._home.lstat(inner)
        return None

    def _compute_allowance(self) -> Allowance:
        return self.quota.usage.allowance(self.quota.user, WHOLE, self.quota.quota, self._measure)

    def _measure(self) -> Measurement:
        usage = self._home.usage()
        return Measurement({WHOLE: usage.size_bytes}, usage.files)


def inner_path(path: bytes) -> str:
    """From the home: /datasets/../models is models. Above the home there is the home, as above / there is /."""
    names: list[str] = []
    for name in os.fsdecode(path).split("/"):
        if "\0" in name:
            raise OSError(errno.EINVAL, "a name has a NUL byte")
        if name == "..":
            names = names[:-1]
        elif name not in ("", "."):
            names.append(name)
    return "/".join(names)


def to_shown_path(path: bytes) -> bytes:
    """The same as a client writes it; above the home there is the home, as above / there is /."""
    names: list[bytes] = []
    for name in path.split(b"/"):
        if name == b"..":
            names = names[:-1]
        elif name not in (b"", b"."):
            names.append(name)
    return b"/" + b"/".join(names)


def _may_leave(inner: str) -> str:
    if not inner or inner in HOME_FOLDERS:
        raise PermissionError(errno.EACCES, "this folder is part of every data home and stays")
    return inner


def _may_enter(inner: str) -> str:
    try:
        check_may_enter(inner.split("/"))
    except PathRefused as error:
        raise PermissionError(errno.EACCES, sentences(error)) from error
    return inner


@contextmanager
def _convert_quota_errors() -> Iterator[None]:
    try:
        yield
    except (QuotaExceeded, TooManyFiles) as error:
        raise OSError(errno.EDQUOT, sentences(error)) from error
