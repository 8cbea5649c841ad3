"""Writes into the folder of an attempt, jobs/<submission id>/ of its user's home.

A job and its user may do there as they like, also while we write: no link is followed on the way or at its end, a file
with a second name is not written to, and what stands in the way is replaced. Nobody reads half a file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from app.homes.errors import disk_errors
from app.homes.files import HomeFiles
from app.homes.model import FILE_MODE, JOBS
from app.homes.rooted_directory import RootedDirectory

PART = ".{}.part"
COPY_BYTES = 1 << 20
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def write_files(files: HomeFiles, user: str, folder: str, contents: Mapping[str, bytes]) -> None:
    """Write files into a folder of a data home, which is made if need be. Raises what homes do.

    Args:
        folder: by name, below the user's jobs.
        contents: name → what the file is to hold.
    """
    with opened_folder(files, user, folder) as folder_fd:
        for name, data in contents.items():
            with new_file(folder_fd, name) as fd:
                write_all(fd, data)


@contextmanager
def opened_folder(files: HomeFiles, user: str, folder: str) -> Iterator[int]:
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
