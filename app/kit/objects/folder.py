"""The folder under a filesystem store: names, safe opening, drafts, the lock, errors of the disk.

Every step below the root is opened relative to its parent with O_NOFOLLOW, so a symbolic link planted in the
folder leads nowhere. It depends on neither the meaning of keys, nor metadata, nor the store contract beyond its errors.

    objects/jobs.d/42.d/out.nef.bin     the payload of jobs/42/out.nef, read-only
    objects/jobs.d/42.d/out.nef.json    its metadata
    drafts/                             files being written; a leftover of a crash is deleted after a day
    lock                                flock: shared to open an object, exclusive for the renames of a change
Three suffixes for three kinds of names, so the keys `a`, `a/b`, `a.d/b` and `a.bin` never collide.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from app.kit.files import NO_SPACE, make_private
from app.kit.objects.base import StoreFull, StoreRefused, StoreUnavailable

FOLDER_SUFFIX = ".d"
PAYLOAD_SUFFIX = ".bin"
META_SUFFIX = ".json"
STALE_DRAFT_S = 24 * 3600
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = (*NO_SPACE, errno.EFBIG)
_PLANTED = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR)
_NO_FAST_COPY = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOENT, errno.EOPNOTSUPP, errno.ENOSYS)
_COPY_BYTES = 1 << 30
FULL = "The object store is full: its disk has no room for this object"
FULL_HERE = "The disk of this machine has no room for a copy of this object"


@contextmanager
def disk_errors(full: str = FULL) -> Iterator[None]:
    """Converts an OSError of the disk into StoreFull, StoreRefused or StoreUnavailable.

    FileNotFoundError propagates: its meaning depends on the caller.

    Args:
        full: the message if there is no space.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise from_os_error(error, full) from error


def from_os_error(error: OSError, full: str = FULL) -> StoreFull | StoreRefused | StoreUnavailable:
    """Converts an error of the operating system into a store error."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _FULL:
        return StoreFull(f"{full} ({reason}).", hint="Delete old jobs or enlarge the disk, then try again.")
    if error.errno in _PLANTED:
        return StoreRefused(f"The object store folder holds something that is not ours ({reason}).")
    return StoreUnavailable(f"The object store folder cannot be used ({reason}).")


@dataclass(frozen=True, order=True)
class Name:
    """One entry of a folder. `key` ends in '/' for a folder, so that the order is that of complete keys."""

    key: str
    is_folder: bool


class Folder:
    """File operations under one root that cannot leave it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        with disk_errors():
            for name in ("objects", "drafts"):
                make_private(root / name)
            self._sweep_drafts()

    @contextmanager
    def opened(self, name: str) -> Iterator[int]:
        """Returns a descriptor of `objects` or `drafts`.

        Raises:
            StoreUnavailable: The folder was removed.
        """
        try:
            root_fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fd = os.open(name, _DIRECTORY, dir_fd=root_fd)
            finally:
                os.close(root_fd)
        except OSError as error:
            raise from_os_error(error) from error
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def locked(self, *, exclusive: bool) -> Iterator[None]:
        """Holds the lock of the store, across threads and processes; only for a few system calls at a time."""
        try:
            fd = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise from_os_error(error) from error
        try:
            with disk_errors():
                fcntl.flock(fd, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            yield
        finally:
            os.close(fd)

    @contextmanager
    def parent(self, segments: list[str], *, create: bool = False) -> Iterator[int]:
        """Returns a descriptor of the folder at these segments.

        Raises:
            FileNotFoundError: It does not exist, and `create` is false.
        """
        with self.opened("objects") as top:
            fd = os.dup(top)
            try:
                for segment in segments:
                    fd = _open_subfolder(fd, segment + FOLDER_SUFFIX, create=create)
                yield fd
            finally:
                os.close(fd)

    @contextmanager
    def draft(self) -> Iterator[tuple[int, str]]:
        """Creates a new file to write: (descriptor, name in `drafts`). It is deleted at the end unless it was moved."""
        name = uuid.uuid4().hex
        with self.opened("drafts") as drafts:
            with disk_errors():
                fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444, dir_fd=drafts)
            try:
                yield fd, name
            finally:
                os.close(fd)
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=drafts)

    @contextmanager
    def twin(self, fd: int) -> Iterator[str]:
        """Creates a draft with the content of an open object: a hard link, or a copy where that is impossible."""
        name = uuid.uuid4().hex
        with self.opened("drafts") as drafts:
            try:
                if link_fd(fd, name, drafts):
                    yield name
                    return
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=drafts)
        with self.draft() as (draft_fd, draft):
            copy_all(fd, draft_fd)
            yield draft

    def publish(self, draft: str, parent_fd: int, name: str) -> None:
        """Moves a draft to its place, replacing an existing file. Atomic."""
        with self.opened("drafts") as drafts, disk_errors():
            os.rename(draft, name, src_dir_fd=drafts, dst_dir_fd=parent_fd)

    def prune(self, segments: list[str]) -> None:
        """Removes the empty folders on this path, deepest first. Call with the exclusive lock."""
        for depth in range(len(segments), 0, -1):
            try:
                with self.parent(segments[: depth - 1]) as fd:
                    os.rmdir(segments[depth - 1] + FOLDER_SUFFIX, dir_fd=fd)
            except OSError:  # not empty, or already removed
                return

    def _sweep_drafts(self) -> None:
        oldest = time.time() - STALE_DRAFT_S
        for path in (self.root / "drafts").iterdir():
            with suppress(FileNotFoundError):
                if path.lstat().st_mtime < oldest:
                    path.unlink()


def names(fd: int) -> list[Name]:
    """Yields the payloads and folders in an open folder, in the order of their keys. Foreign files are skipped."""
    with disk_errors():
        entries = os.listdir(fd)
    payloads = [Name(e.removesuffix(PAYLOAD_SUFFIX), False) for e in entries if e.endswith(PAYLOAD_SUFFIX)]
    folders = [Name(e.removesuffix(FOLDER_SUFFIX) + "/", True) for e in entries if e.endswith(FOLDER_SUFFIX)]
    return sorted(payloads + folders)


def open_plain(name: str, parent_fd: int) -> int:
    """Opens a regular file for reading.

    Raises:
        FileNotFoundError: It does not exist.
        StoreRefused: It is something else.
    """
    with disk_errors():
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent_fd)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise from_os_error(OSError(errno.EISDIR, "not a file"))


def link_fd(fd: int, name: str, parent_fd: int) -> bool:
    """Gives an open file another name; returns False if that is impossible (another device, deleted meanwhile)."""
    try:
        os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=parent_fd, follow_symlinks=True)
    except OSError as error:
        if error.errno in _NO_LINK:
            return False
        raise from_os_error(error) from error
    return True


def write_all(fd: int, data: bytes) -> None:
    """Writes every byte, or raises StoreFull or StoreUnavailable."""
    view = memoryview(data)
    with disk_errors():
        while view:
            view = view[os.write(fd, view) :]


def copy_all(source_fd: int, target_fd: int, *, full: str = FULL) -> None:
    """Copies a file from its start in the kernel: shared blocks if the file system supports them, otherwise
    sendfile."""
    with disk_errors(full):
        os.lseek(source_fd, 0, os.SEEK_SET)
        try:
            while os.copy_file_range(source_fd, target_fd, _COPY_BYTES):
                pass
        except OSError as error:
            if error.errno not in _NO_FAST_COPY:
                raise
        # Both offsets are where the copy ended: all done, or not started at all.
        while os.sendfile(target_fd, source_fd, None, _COPY_BYTES):
            pass


def _open_subfolder(fd: int, name: str, *, create: bool) -> int:
    """Opens a subfolder and closes its parent."""
    with disk_errors():
        if create:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=fd)
        below = os.open(name, _DIRECTORY, dir_fd=fd)
    os.close(fd)
    return below
