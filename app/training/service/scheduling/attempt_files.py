"""Writes into the folder of an attempt, jobs/<submission id>/ of its user's home: its files, and copies of its log.

A job and its user may change anything there, also while we write: no link is followed on the path or at its end, a file
with a second name is not written to, and obstacles are replaced. Nobody reads half a file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from app.homes.errors import disk_errors
from app.homes.files import HomeFiles
from app.homes.model import FILE_MODE, JOBS
from app.homes.rooted_directory import RootedDirectory
from app.training.service.task_log import DROPPED, LOG

PART = ".{}.part"
COPY_BYTES = 1 << 20
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
GAP = b"[modelmill: lines are missing here until the job has ended]\n"
NOTE_BYTES = 150
"""More than any such line has."""


def write_files(files: HomeFiles, user: str, folder: str, contents: Mapping[str, bytes]) -> None:
    """Write files into a folder of a data home, which is made if need be. Raises what homes do.

    Args:
        folder: by name, below the user's jobs.
        contents: name → what the file is to hold.
    """
    with open_folder(files, user, folder) as folder_fd:
        for name, data in contents.items():
            with new_file(folder_fd, name) as fd:
                write_all(fd, data)


class LogCopies:
    """Copies of the logs of attempts, in their folders: grown while the job runs, replaced by the whole log at its end.

    Ray keeps a log on the node whose program wrote it, and loses it with that node. While the job runs we ask for its
    last lines and add what is new of them. All methods raise errors of homes when the folder cannot be written.

    Args:
        most_bytes: of one log; the end is kept.
    """

    def __init__(self, files: HomeFiles, most_bytes: int) -> None:
        self._files = files
        self._most_bytes = most_bytes

    def grow(self, user: str, folder: str, tail: bytes, *, is_whole: bool) -> int:
        """Append what is new. A line without an end is left for later; a progress bar ends with each of its states.

        Args:
            tail: The last lines of the log.
            is_whole: There are no lines before them.

        Returns:
            The size of the copy in bytes.
        """
        tail = tail[: last_end(tail)][-self._most_bytes :]
        with open_folder(self._files, user, folder) as folder_fd:
            with old_file(folder_fd, LOG, os.O_RDWR | os.O_APPEND) as fd:
                if fd is not None:
                    new = find_continuation(_end(fd, len(tail)), tail)
                    write_all(fd, GAP + tail if new is None else new)
                    return self._shorten(folder_fd, fd)
            if not tail:
                return 0
            with new_file(folder_fd, LOG) as fd:
                write_all(fd, tail if is_whole else GAP + tail)
                return os.fstat(fd).st_size

    def replace(self, user: str, folder: str, chunks: Iterable[bytes]) -> int | None:
        """Put the whole log in the place of the copy, unless there is none. Raises what chunks raises.

        Returns:
            The size of the copy in bytes; None: the log is gone, and the copy stays as it was.
        """
        with disk_errors(folder), ExitStack() as stack:
            tail_file: _TailFile | None = None
            for chunk in chunks:
                if tail_file is None:
                    folder_fd = stack.enter_context(open_folder(self._files, user, folder))
                    tail_file = _TailFile(stack.enter_context(new_file(folder_fd, LOG)), self._most_bytes)
                tail_file.add(chunk)
            return None if tail_file is None else tail_file.finish()

    def end(self, user: str, folder: str, size_bytes: int) -> bytes:
        """The last bytes of the copy; b"" if there is none."""
        with open_folder(self._files, user, folder) as folder_fd, old_file(folder_fd, LOG, os.O_RDONLY) as fd:
            return b"" if fd is None else _end(fd, size_bytes)

    def _shorten(self, folder_fd: int, fd: int) -> int:
        """Half of it goes at once, so that this is seldom."""
        size_bytes = os.fstat(fd).st_size
        if size_bytes <= self._most_bytes:
            return size_bytes
        with new_file(folder_fd, LOG) as new_fd:
            write_all(new_fd, DROPPED.format("earlier lines were dropped", self._most_bytes).encode())
            copy_end(fd, new_fd, size_bytes - self._most_bytes // 2)
            return os.fstat(new_fd).st_size


class _TailFile:
    """A file of which at most `most_bytes` at the end are kept, however much is added."""

    def __init__(self, fd: int, most_bytes: int) -> None:
        self._fd = fd
        self._most_bytes = most_bytes
        self._size = self._dropped = 0

    def add(self, chunk: bytes) -> None:
        write_all(self._fd, chunk)
        self._size += len(chunk)
        if self._size > 2 * self._most_bytes:
            self._drop(self._size - self._most_bytes, b"")

    def finish(self) -> int:
        if self._dropped + self._size > self._most_bytes:
            count = max(NOTE_BYTES, self._size + NOTE_BYTES - self._most_bytes)
            note = f"the first {self._dropped + count} bytes were dropped"
            self._drop(count, DROPPED.format(note, self._most_bytes).encode())
        return self._size

    def _drop(self, count: int, note: bytes) -> None:
        """The first bytes, in place. said: what is to stand there instead, no longer than what goes."""
        os.lseek(self._fd, 0, os.SEEK_SET)
        write_all(self._fd, note)
        copy_end(self._fd, self._fd, count)
        self._dropped += count
        self._size += len(note) - count
        os.ftruncate(self._fd, self._size)


def find_continuation(stored: bytes, tail: bytes) -> bytes | None:
    """What of the tail comes after what is stored, where both are of one log. None: something between is missing.

    stored: the end of what is stored, as long as the tail at least, if there is so much.
    """
    if not tail:
        return b""
    old_view, tail_view = memoryview(stored), memoryview(tail)
    first = tail[: first_end(tail)]
    at = stored.find(first)
    while at >= 0:
        if tail_view[: len(stored) - at] == old_view[at:]:
            return tail[len(stored) - at :]
        at = stored.find(first, at + 1)
    return None


def first_end(text: bytes) -> int:
    """Where the first line, or state of a progress bar, is over; 0: nowhere."""
    ends = [at for at in (text.find(b"\n"), text.find(b"\r")) if at >= 0]
    return min(ends) + 1 if ends else 0


def last_end(text: bytes) -> int:
    """Where the last line, or state of a progress bar, is over; 0: nowhere."""
    return max(text.rfind(b"\n"), text.rfind(b"\r")) + 1


def _end(fd: int, size_bytes: int) -> bytes:
    start = max(0, os.fstat(fd).st_size - size_bytes)
    parts = []
    while data := os.pread(fd, size_bytes, start):
        parts.append(data)
        start += len(data)
    return b"".join(parts)


@contextmanager
def open_folder(files: HomeFiles, user: str, folder: str) -> Iterator[int]:
    """A descriptor of the folder, made if it is missing, to open names in. What the disk says in the block and here
    becomes an error of homes."""
    with files.opened(user) as home, disk_errors(folder):
        _ensure(home, JOBS)
        _ensure(home, f"{JOBS}/{folder}")
        with home.parent(f"{JOBS}/{folder}/-") as (folder_fd, _):
            yield folder_fd


@contextmanager
def new_file(folder_fd: int, name: str) -> Iterator[int]:
    """To be written; at the end it takes the place of whatever has its name, unless an error comes first."""
    part = PART.format(name)
    with suppress(FileNotFoundError):
        os.unlink(part, dir_fd=folder_fd)
    fd = os.open(part, _NEW, FILE_MODE, dir_fd=folder_fd)
    try:
        os.fchmod(fd, FILE_MODE)
        yield fd
        os.rename(part, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(part, dir_fd=folder_fd)
        raise
    finally:
        os.close(fd)


@contextmanager
def old_file(folder_fd: int, name: str, flags: int) -> Iterator[int | None]:
    """A regular file that has this name and no other; None for anything else."""
    fd = _open_regular(folder_fd, name, flags)
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def copy_end(source_fd: int, target_fd: int, start: int) -> None:
    """What stands from there on, to where the target is."""
    while data := os.pread(source_fd, COPY_BYTES, start):
        write_all(target_fd, data)
        start += len(data)


def _open_regular(folder_fd: int, name: str, flags: int) -> int | None:
    try:
        fd = os.open(name, flags | _OLD, dir_fd=folder_fd)
    except OSError:
        return None
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return fd
    os.close(fd)
    return None


def _ensure(home: RootedDirectory, folder: str) -> None:
    with suppress(FileExistsError):
        home.make_folder(folder)
