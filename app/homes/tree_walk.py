"""Walks a tree of folders with descriptors: never through a link, never out of it, at any depth.

One descriptor is open at a time and nothing recurses, so a tree of ten thousand levels exhausts neither descriptors nor
the stack: anybody who may create folders can create such a tree.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
TRIES = 5
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@dataclass(frozen=True)
class Visit:
    """A folder that was entered, with its other entries; or one to which the walk has returned."""

    fd: int
    """Of the folder, until the next visit."""
    entries: list[os.DirEntry[str]] = field(default_factory=list)
    left: str = ""
    """The subfolder from which the walk has returned."""


@dataclass
class _Level:
    name: str
    identity: tuple[int, int]
    folders: list[str]


def walk(top_fd: int, *, insist: bool = False) -> Iterator[Visit]:
    """Yields every folder from the top down, and each again after every finished folder below it.

    insist: makes unreadable folders readable; otherwise they are ignored. Vanished entries are ignored, too. Raises
    OSError EAGAIN if a folder was moved elsewhere while we were in it.
    """
    fd = os.open(".", FOLDER, dir_fd=top_fd)
    try:
        level, entries = _look(fd, "")
        levels = [level]
        yield Visit(fd, entries)
        while True:
            if levels[-1].folders:
                name = levels[-1].folders.pop()
                below = _enter(name, fd, insist=insist)
                if below is None:
                    continue
                os.close(fd)
                fd = below
                level, entries = _look(fd, name)
                levels.append(level)
                yield Visit(fd, entries)
            else:
                done = levels.pop()
                if not levels:
                    return
                fd = _leave(fd, levels[-1].identity)
                yield Visit(fd, left=done.name)
    finally:
        os.close(fd)


def remove_tree(name: str, folder_fd: int) -> None:
    """Deletes the entry of this name in an open folder, with its content; a link is deleted, not its target.

    Raises:
        FileNotFoundError: There is no such entry.
        OSError: ENOTEMPTY: somebody keeps adding to it.
    """
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder_fd)
        return
    for tries_left in reversed(range(TRIES)):
        top_fd = _enter(name, folder_fd, insist=True)
        if top_fd is None:
            return
        try:
            _empty(top_fd)
        finally:
            os.close(top_fd)
        try:
            os.rmdir(name, dir_fd=folder_fd)
            return
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or not tries_left:
                raise


def _empty(top_fd: int) -> None:
    for visit in walk(top_fd, insist=True):
        if visit.left:
            with suppress(FileNotFoundError):
                _unless_filled(visit.left, visit.fd)
            continue
        with suppress(PermissionError):
            os.fchmod(visit.fd, 0o700)  # a read-only folder keeps its files
        for entry in visit.entries:
            with suppress(FileNotFoundError):
                os.unlink(entry.name, dir_fd=visit.fd)


def _unless_filled(name: str, folder_fd: int) -> None:
    try:
        os.rmdir(name, dir_fd=folder_fd)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:  # somebody adds to it: the next round finds it
            raise


def _look(fd: int, name: str) -> tuple[_Level, list[os.DirEntry[str]]]:
    status = os.fstat(fd)
    level = _Level(name, (status.st_dev, status.st_ino), [])
    others = []
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                level.folders.append(entry.name)
            else:
                others.append(entry)
    return level, others


def _enter(name: str, folder_fd: int, *, insist: bool) -> int | None:
    try:
        return os.open(name, FOLDER, dir_fd=folder_fd)
    except PermissionError:
        if not insist:
            return None
        _make_readable(name, folder_fd)
        return os.open(name, FOLDER, dir_fd=folder_fd)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise


def _make_readable(name: str, folder_fd: int) -> None:
    """chmod by descriptor: by name it would follow a link that was planted meanwhile."""
    fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
    try:
        os.chmod(f"/proc/self/fd/{fd}", 0o700)  # noqa: PTH101  # fchmod refuses O_PATH
    finally:
        os.close(fd)


def _leave(fd: int, identity: tuple[int, int]) -> int:
    """One level up, and nowhere else: the folder may have been moved under another one, which must not be read."""
    above = os.open("..", FOLDER, dir_fd=fd)
    status = os.fstat(above)
    if (status.st_dev, status.st_ino) != identity:
        os.close(above)
        raise OSError(errno.EAGAIN, "a folder was moved while it was gone through")
    os.close(fd)
    return above
