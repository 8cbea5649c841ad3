"""What a child leaves in its work folder. The starter reads it with its own rights, so that a link in the folder, or a
path in a result, would give the child every file that its starter may read."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from pathlib import Path

from app.kit.sandbox.errors import StageFailed


def keep_plain_files(folder: Path) -> None:
    """Removes links that lead out of a folder, pipes, sockets and devices. No process that writes there may be left."""
    todo = [str(folder)]
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                elif entry.is_symlink():
                    if not _is_within(folder, entry.path):
                        os.unlink(entry.path)
                elif not entry.is_file():
                    os.unlink(entry.path)


def _is_within(folder: Path, path: str) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def file_within(folder: Path, path: str) -> Path:
    """Returns the file that a result names.

    Args:
        folder: the child's work folder.
        path: absolute.

    Raises:
        StageFailed: It is outside of the folder.
    """
    if not _is_within(folder, path):
        raise StageFailed(f"{path} is outside of the work folder", hint="The log may tell why.")
    return Path(path)


def remove_tree(folder: Path) -> None:
    """Removes a folder, however deep it is. What cannot be removed stays."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:  # it calls itself for each level
        with contextlib.suppress(OSError):
            while entries := [entry.path for entry in os.scandir(folder)]:
                for path in entries:
                    _remove_level(folder, path)
            folder.rmdir()


def _remove_level(folder: Path, path: str) -> None:
    """Removes a file, or a folder whose own folders move up."""
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    os.chmod(path, 0o700)
    for entry in list(os.scandir(path)):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)
            os.rename(entry.path, folder / uuid.uuid4().hex)
        else:
            os.unlink(entry.path)
    os.rmdir(path)
