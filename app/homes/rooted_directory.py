"""File operations under one folder that cannot leave it: the base of every reader and writer of data homes.

Paths are relative to that folder, one leading slash is allowed, and `..` is refused. Errors are OSError, LeadsOut among
them, so that an SFTP server can forward them; `errors.disk_errors` converts them. Links are followed if they stay
inside (see app.homes.path_openers), but operations that create, remove or rename follow none and act on the last name
itself: a bad link can be deleted, and no detour leads to the permanent folders. No operation creates links, hard or
symbolic.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from app.homes import tree_walk
from app.homes.errors import LeadsOut
from app.homes.model import FILE_MODE, FOLDER_MODE, Kind
from app.homes.path_openers import Opener, best_opener
from app.homes.tree_walk import walk

RENAME_NOREPLACE = 1
DRAFT_PREFIX = ".upload-"
_PATH_FOLDER = os.O_PATH | os.O_DIRECTORY
_NO_NOREPLACE = (errno.EINVAL, errno.ENOSYS)


@dataclass(frozen=True)
class Name:
    """A name in a folder, as listed: no file was accessed."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Usage:
    size_bytes: int
    files: int
    """Files and folders."""


class Draft:
    """A file that is being written, under a temporary name.

    Args:
        fd: of the file, open for writing; its home closes it.
        folder_fd: of the folder that it lies in; its home closes it.
        name: that it has while it is written.
    """

    def __init__(self, home: RootedDirectory, fd: int, folder_fd: int, name: str) -> None:
        self.fd = fd
        self._home = home
        self._folder_fd = folder_fd
        self._name = name

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd, view) :]

    def publish(self, path: str, *, replace: bool) -> os.stat_result:
        """Moves it to its place, completely and at once. Synced first: a name that survives a power cut must not lead
        to an empty file. The folder is not synced: at worst the upload never happened. FileExistsError unless
        replace."""
        os.fsync(self.fd)
        with self._home.parent(path) as (folder_fd, name):
            _rename(self._name, self._folder_fd, name, folder_fd, replace=replace)
        return os.fstat(self.fd)


class RootedDirectory:
    """Owns the descriptor of its folder: close it, or use it as a context. Safe to share between threads."""

    def __init__(self, root_fd: int, opener: Opener | None = None) -> None:
        self.root_fd = root_fd
        self._opener = opener or best_opener()

    @classmethod
    def at(cls, root: Path, inner: str = "", opener: Opener | None = None) -> RootedDirectory:
        """root belongs to the operator and may be reached over links; from there to `inner` there must be none."""
        opener = opener or best_opener()
        fd = os.open(root, _PATH_FOLDER | os.O_CLOEXEC)
        try:
            return cls(opener.open(fd, inner, _PATH_FOLDER, follow=False), opener)
        finally:
            os.close(fd)

    def close(self) -> None:
        os.close(self.root_fd)

    def __enter__(self) -> RootedDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, path: str, flags: int, mode: int = FILE_MODE) -> int:
        """As os.open, with whatever kind of thing is there."""
        return self._opener.open(self.root_fd, "/".join(_split_path(path)), flags | os.O_CLOEXEC, mode)

    def open_file(self, path: str, flags: int = os.O_RDONLY) -> int:
        """A regular file or nothing: no pipe blocks, no device is read. IsADirectoryError, or ENXIO."""
        fd = self.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
        kind = kind_of(os.fstat(fd).st_mode)
        if kind is Kind.FILE:
            return fd
        os.close(fd)
        code = errno.EISDIR if kind is Kind.FOLDER else errno.ENXIO
        raise OSError(code, os.strerror(code), path)

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """A descriptor of a folder, for reading it."""
        fd = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def parent(self, path: str, *, follow: bool = False) -> Iterator[tuple[int, str]]:
        """(descriptor of the folder that the last name of the path is in, that name). EBUSY for the root itself.

        follow: links on the way there. The last name is not looked at.
        """
        *above, name = _split_path(path) or [""]
        if not name:
            raise OSError(errno.EBUSY, "this is the root itself", path)
        fd = self._opener.open(self.root_fd, "/".join(above), _PATH_FOLDER, follow=follow)
        try:
            yield fd, name
        finally:
            os.close(fd)

    def stat(self, path: str) -> os.stat_result:
        """Of a link's target, if that is inside."""
        fd = self.open(path, os.O_PATH)
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def lstat(self, path: str) -> os.stat_result:
        if not _split_path(path):
            return os.fstat(self.root_fd)
        with self.parent(path, follow=True) as (fd, name):
            return os.stat(name, dir_fd=fd, follow_symlinks=False)

    def names(self, path: str = "") -> list[Name]:
        """What is in a folder, in no order."""
        with self.folder(path) as fd:
            return names_in(fd)

    def make_folder(self, path: str, mode: int = FOLDER_MODE) -> None:
        """With exactly this mode, whatever the umask. FileExistsError if something is there."""
        with self.parent(path) as (fd, name):
            os.mkdir(name, 0o700, dir_fd=fd)
            new_fd = os.open(name, tree_walk.FOLDER, dir_fd=fd)
            try:
                os.fchmod(new_fd, mode)
            finally:
                os.close(new_fd)

    def rename(self, source: str, target: str, *, replace: bool = False) -> None:
        """Both under this root. FileExistsError unless replace."""
        with self.parent(source) as (source_fd, name), self.parent(target) as (target_fd, new_name):
            _rename(name, source_fd, new_name, target_fd, replace=replace)

    def remove(self, path: str) -> None:
        """A file or a link. IsADirectoryError for a folder."""
        with self.parent(path) as (fd, name):
            os.unlink(name, dir_fd=fd)

    def remove_folder(self, path: str) -> None:
        """Removes an empty folder."""
        with self.parent(path) as (fd, name):
            os.rmdir(name, dir_fd=fd)

    def remove_tree(self, path: str) -> None:
        """Removes a folder with its content, or a file, or a link."""
        with self.parent(path) as (fd, name):
            tree_walk.remove_tree(name, fd)

    def usage(self, path: str = "", seen: set[tuple[int, int]] | None = None) -> Usage:
        """Of everything below. The bytes of a file count once, however many names it has. seen: such files so far."""
        seen = set() if seen is None else seen
        size_bytes = files = 0
        with self.folder(path) as top_fd:
            for visit in walk(top_fd):
                files += bool(visit.left)
                for entry in visit.entries:
                    with suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        files += 1
                        size_bytes += _count_freed(status, seen)
        return Usage(size_bytes, files)

    @contextmanager
    def draft(self, folder: str) -> Iterator[Draft]:
        """A new file in this folder, to be written and then published. Deleted at the end if it was not published."""
        name = DRAFT_PREFIX + uuid.uuid4().hex
        with self.folder(folder) as folder_fd:
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE, dir_fd=folder_fd)
            try:
                os.fchmod(fd, FILE_MODE)
                yield Draft(self, fd, folder_fd, name)
            finally:
                os.close(fd)
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder_fd)


def names_in(folder_fd: int) -> list[Name]:
    with os.scandir(folder_fd) as entries:
        return [Name(entry.name, _kind_of_entry(entry)) for entry in entries]


def kind_of(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return Kind.FOLDER
    if stat.S_ISREG(mode):
        return Kind.FILE
    return Kind.LINK if stat.S_ISLNK(mode) else Kind.OTHER


def _kind_of_entry(entry: os.DirEntry[str]) -> Kind:
    if entry.is_dir(follow_symlinks=False):
        return Kind.FOLDER
    if entry.is_file(follow_symlinks=False):
        return Kind.FILE
    return Kind.LINK if entry.is_symlink() else Kind.OTHER


def _split_path(path: str) -> list[str]:
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise LeadsOut(path)
    return names


def _count_freed(status: os.stat_result, seen: set[tuple[int, int]]) -> int:
    if status.st_nlink > 1:
        identity = (status.st_dev, status.st_ino)
        if identity in seen:
            return 0
        seen.add(identity)
    return status.st_size


def _rename(name: str, folder_fd: int, new_name: str, new_folder_fd: int, *, replace: bool) -> None:
    if replace:
        os.rename(name, new_name, src_dir_fd=folder_fd, dst_dir_fd=new_folder_fd)
        return
    code = _rename_noreplace(folder_fd, os.fsencode(name), new_folder_fd, os.fsencode(new_name))
    if code in _NO_NOREPLACE:  # NFS and old C libraries: check first, which leaves a short gap
        try:
            os.stat(new_name, dir_fd=new_folder_fd, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, new_name, src_dir_fd=folder_fd, dst_dir_fd=new_folder_fd)
            return
        code = errno.EEXIST
    if code:
        raise OSError(code, os.strerror(code), new_name)


def _rename_noreplace(folder_fd: int, name: bytes, new_folder_fd: int, new_name: bytes) -> int:
    """renameat2 of the C library; 0 or the error number."""
    renameat2 = getattr(_LIBC, "renameat2", None)
    if renameat2 is None:
        return errno.ENOSYS
    if b"\0" in name or b"\0" in new_name:
        raise ValueError("embedded null byte")
    failed = renameat2(folder_fd, name, new_folder_fd, new_name, RENAME_NOREPLACE)
    return ctypes.get_errno() if failed else 0


_LIBC = ctypes.CDLL(None, use_errno=True)
