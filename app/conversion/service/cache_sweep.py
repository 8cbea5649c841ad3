"""Keeps the cache of stages within its size: what was used least recently goes first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from app.conversion import object_keys
from app.conversion.cache_figures import CacheFigures
from app.kit.objects import ObjectInfo, ObjectStore

UNFINISHED = timedelta(hours=1)
"""So long copies may lie there whose entry is not written: a worker that died among them never writes it."""


@dataclass(frozen=True)
class _Folder:
    prefix: str
    size_bytes: int
    used_at: datetime
    is_whole: bool


class CacheSweep:
    """Args:
    max_bytes: How much the cache may hold; 0: nothing, and what is there goes.
    """

    def __init__(self, objects: ObjectStore, figures: CacheFigures, *, max_bytes: int) -> None:
        self.objects = objects
        self.figures = figures
        self.max_bytes = max_bytes

    def sweep(self, now: datetime) -> None:
        """Safe to repeat, and beside jobs that use it: what they find gone they do themselves."""
        folders = sorted(self._folders(), key=lambda folder: folder.used_at, reverse=True)
        size_bytes = entries = 0
        is_full = False
        for folder in folders:
            is_stale = not folder.is_whole and folder.used_at < now - UNFINISHED
            is_full = is_full or (not is_stale and size_bytes + folder.size_bytes > self.max_bytes)
            if is_stale or is_full:
                self._delete(folder)
                continue
            size_bytes += folder.size_bytes
            entries += folder.is_whole
        self.figures.note_size(size_bytes, entries)

    def _folders(self) -> list[_Folder]:
        infos = list(self.objects.list(object_keys.CACHE))
        return [_folder(prefix, list(files)) for prefix, files in groupby(infos, key=_prefix)]

    def _delete(self, folder: _Folder) -> None:
        """The entry first, so that nobody finds a part."""
        self.objects.delete(f"{folder.prefix}{object_keys.ENTRY}")
        self.objects.delete_prefix(folder.prefix)


def _prefix(info: ObjectInfo) -> str:
    return "/".join(info.key.split("/")[:3]) + "/"


def _folder(prefix: str, infos: list[ObjectInfo]) -> _Folder:
    entry = next((info for info in infos if info.key == f"{prefix}{object_keys.ENTRY}"), None)
    used_at = entry.modified_at if entry else max(info.modified_at for info in infos)
    return _Folder(prefix, sum(info.size_bytes for info in infos), used_at, entry is not None)
