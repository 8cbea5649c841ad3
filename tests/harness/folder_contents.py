"""Files below a folder in which processes go on making and removing some."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def paths_below(folder: Path) -> Iterator[Path]:
    """All files and folders; some may have gone by the time that they are looked at."""
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in (*folders, *files))


def contents_of(paths: Iterable[Path]) -> dict[Path, bytes]:
    """Of those that are files, and still there."""
    contents = {}
    for path in paths:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if path.is_file():
                contents[path] = path.read_bytes()
    return contents
