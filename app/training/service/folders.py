"""The folders of attempts in their user's home: their current location, and the models in them.

Jobs write there, so their content is untrusted: no link is followed, and reading is limited to what a page can wait
for.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from app.homes.errors import LeadsOut, disk_errors
from app.homes.home_paths import home_path_of
from app.homes.retention import FolderTimes
from app.homes.service import Homes
from app.homes.tree_walk import FOLDER
from app.kit.clock import from_text
from app.kit.errors import ModelmillError
from app.training.model import Attempt, Task
from app.training.service.views import AttemptFolder

MODEL, EVENTS = ".onnx", "tfevents"
DEEPEST = 3
"""folder/folder/model.onnx"""
MOST_ENTRIES = 5000
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def folders_of(homes: Homes, user: str, attempts: Sequence[Attempt]) -> dict[int, AttemptFolder]:
    """By attempt number; one that has none yet is omitted."""
    if not attempts:
        return {}
    times = {times.name: times for times in homes.folders.times(user, [attempt.folder for attempt in attempts])}
    folders = {}
    for attempt in attempts:
        folder = _read_folder(homes, times.get(attempt.folder), attempt.ended_at)
        if folder is not None:
            folders[attempt.attempt_no] = folder
    return folders


def checkpoints_of(homes: Homes, task: Task) -> AttemptFolder | None:
    """The folder that the attempts share. None before the first."""
    if task.folder is None or not task.latest_attempt_no:
        return None
    return _read_folder(homes, next(iter(homes.folders.times(task.user, [task.folder])), None), task.ended_at)


def _read_folder(homes: Homes, times: FolderTimes | None, ended_at: str | None) -> AttemptFolder | None:
    """times None: it is gone, or has not been made."""
    if times is not None:
        return AttemptFolder(times.path, times.is_trashed, times.trash_at, times.purge_at)
    if ended_at is None:
        return None
    end, retention = from_text(ended_at), homes.options.retention
    return AttemptFolder("", True, retention.trash_at(end), retention.purge_at(end))


@contextmanager
def open_file(homes: Homes, user: str, path: str) -> Iterator[int]:
    """A regular file in the user's home, for reading. path: as users name it.

    Raises:
        HomeMissing: The user has no home.
        FileMissing: Nothing is there.
        NotAFile: It is a folder or something else.
        PathRefused: It is a link.
    """
    with disk_errors(path), parent_of(homes, user, path) as (folder_fd, name):
        try:
            fd = os.open(name, _FILE, dir_fd=folder_fd)
        except OSError as error:
            raise LeadsOut(path) if error.errno == errno.ELOOP else error from None
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.ENXIO, os.strerror(errno.ENXIO), path)
            yield fd
        finally:
            os.close(fd)


def models_in(homes: Homes, user: str, path: str) -> list[str]:
    """ONNX files in the folder of an attempt, as paths from there, in order. Folders that cannot be read, and names
    that are no text, are ignored."""
    with open_folder(homes, user, path) as top_fd:
        return sorted(path for path in _iterate_files(top_fd) if path.endswith(MODEL))


def has_events(homes: Homes, user: str, path: str) -> bool:
    """Whether there are TensorBoard's event files in the folder of an attempt or a task. False if it cannot be read."""
    with suppress(ModelmillError), open_folder(homes, user, path) as top_fd:
        return any(EVENTS in file.rpartition("/")[2] for file in _iterate_files(top_fd))
    return False


@contextmanager
def open_folder(homes: Homes, user: str, path: str) -> Iterator[int]:
    """A folder in the user's home, reached over no link, for reading. path: as users name it."""
    with disk_errors(path), parent_of(homes, user, path) as (above_fd, name):
        top_fd = os.open(name, FOLDER, dir_fd=above_fd)
        try:
            yield top_fd
        finally:
            os.close(top_fd)


def _iterate_files(top_fd: int) -> Iterator[str]:
    """Breadth first, so that a folder full of checkpoints does not hide what lies beside it."""
    entries_left, folders = MOST_ENTRIES, deque([""])
    while folders and entries_left > 0:
        place = folders.popleft()
        with suppress(OSError), _iterate_below(top_fd, place) as fd, os.scandir(fd) as entries:
            for entry in islice(entries, entries_left):
                entries_left -= 1
                path = f"{place}/{entry.name}" if place else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.extend([path] if path.count("/") + 1 < DEEPEST else [])
                elif path.isprintable() and entry.is_file(follow_symlinks=False):
                    yield path


@contextmanager
def _iterate_below(top_fd: int, place: str) -> Iterator[int]:
    fd = os.open(".", FOLDER, dir_fd=top_fd)
    try:
        for name in filter(None, place.split("/")):
            below = os.open(name, FOLDER, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


@contextmanager
def parent_of(homes: Homes, user: str, path: str) -> Iterator[tuple[int, str]]:
    """(descriptor of the folder that it lies in, its name), reached over no link."""
    with homes.files.opened(user) as home, home.parent(home_path_of(homes.options, user, path).inner) as parent:
        yield parent
