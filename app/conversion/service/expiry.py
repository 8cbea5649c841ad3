"""Deletes what has expired: finished jobs with all their files, and unused uploads.

The cache of stages is kept within its size: the least recently used entries are deleted first. Archived jobs have their
own lifetime, and stay forever if their owner keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from app.conversion import object_keys
from app.conversion.model import JobRecord, Status
from app.conversion.stage_cache import CacheFigures
from app.conversion.store import JobStore
from app.kit.clock import from_text
from app.kit.objects import ObjectInfo, ObjectMissing, ObjectStore
from app.kit.objects.content import read_json


@dataclass(frozen=True)
class _Folder:
    """The stored objects of one id."""

    entry_id: str
    newest_at: datetime
    names: frozenset[str]
    """Keys below it."""


class Expiry:
    """
    Args:
        job_ttl_s: How long the files of a job are kept, counted from the last stored one.
        archive_ttl_s: The same for jobs in the archive.
        upload_ttl_s: How long an unused upload is kept.
    """

    def __init__(
        self, store: JobStore, objects: ObjectStore, *, job_ttl_s: int, archive_ttl_s: int, upload_ttl_s: int
    ) -> None:
        self.store = store
        self.objects = objects
        self.job_ttl = timedelta(seconds=job_ttl_s)
        self.archive_ttl = timedelta(seconds=max(archive_ttl_s, job_ttl_s))
        self.upload_ttl = timedelta(seconds=upload_ttl_s)

    def ends_at(self, record: JobRecord) -> datetime | None:
        """Returns when a job's files are deleted, those of a completed one with its entry in the archive; None while it
        has not ended."""
        ttl = self.archive_ttl if record.status is Status.COMPLETED else self.job_ttl
        return from_text(record.finished_at) + ttl if record.finished_at else None

    def sweep(self, now: datetime) -> None:
        """Deletes what has expired; safe to repeat. A running job keeps its files, however old they are."""
        folders = list(self._iterate_folders(object_keys.JOBS))
        for folder in folders:
            if self._is_over(folder, now):
                self._delete_job(folder.entry_id)
        with_files = {folder.entry_id for folder in folders}
        for info in list(self.objects.list(object_keys.OWNERS)):
            is_old = info.modified_at < now - 2 * self.job_ttl
            if is_old and info.key.rpartition("/")[2] not in with_files:
                self.objects.delete(info.key)  # for a job whose files were deleted in another way
        for info in list(self.objects.list(object_keys.UPLOADING)):
            if info.modified_at < now - self.upload_ttl:
                self.objects.delete(info.key)
        for folder in self._iterate_folders("uploads/"):
            if folder.newest_at < now - self.upload_ttl:
                self.objects.delete_prefix(object_keys.upload(folder.entry_id, ""))

    def _is_over(self, folder: _Folder, now: datetime) -> bool:
        ttl = self.archive_ttl if object_keys.DESCRIPTION in folder.names else self.job_ttl
        return object_keys.KEPT not in folder.names and folder.newest_at < now - ttl

    def _delete_job(self, job_id: str) -> None:
        record = self.store.get(job_id)
        if record is None or record.is_terminal:
            owner = record.owner if record else self._owner_of(job_id)
            if owner:
                self.objects.delete(object_keys.owned(owner, job_id))
            self.objects.delete(object_keys.description(job_id))
            self.objects.delete_prefix(object_keys.job(job_id))
            self.store.delete(job_id)
            if owner:
                self.store.note_archived(owner, job_id)

    def _owner_of(self, job_id: str) -> str:
        """Empty if that is not known."""
        with suppress(ObjectMissing, ValueError):
            return str(read_json(self.objects, object_keys.request(job_id))["owner"])
        return ""

    def _iterate_folders(self, prefix: str) -> Iterator[_Folder]:
        """The ids under a prefix, each with its objects."""
        for entry_id, files in groupby(list(self.objects.list(prefix)), key=lambda info: info.key.split("/")[1]):
            infos = list(files)
            names = frozenset(info.key.split("/", 2)[2] for info in infos)
            yield _Folder(entry_id, max(info.modified_at for info in infos), names)


UNFINISHED = timedelta(hours=1)
"""How long copies may exist without their entry: a worker that died between them never writes it."""


@dataclass(frozen=True)
class _CacheFolder:
    prefix: str
    size_bytes: int
    used_at: datetime
    is_whole: bool


class CacheSweep:
    """
    Args:
        max_bytes: The maximum size of the cache; 0: none, and existing entries are deleted.
    """

    def __init__(self, objects: ObjectStore, figures: CacheFigures, *, max_bytes: int) -> None:
        self.objects = objects
        self.figures = figures
        self.max_bytes = max_bytes

    def sweep(self, now: datetime) -> None:
        """Safe to repeat, and while jobs use the cache: they redo work whose entry has disappeared."""
        folders = sorted(self._iterate_folders(), key=lambda folder: folder.used_at, reverse=True)
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
        self.figures.note_size(size_bytes, entries, now)

    def _iterate_folders(self) -> list[_CacheFolder]:
        infos = list(self.objects.list(object_keys.CACHE))
        return [_read_folder(prefix, list(files)) for prefix, files in groupby(infos, key=_get_prefix)]

    def _delete(self, folder: _CacheFolder) -> None:
        """Deletes the entry first, so that nobody finds a part."""
        self.objects.delete(f"{folder.prefix}{object_keys.ENTRY}")
        self.objects.delete_prefix(folder.prefix)


def _get_prefix(info: ObjectInfo) -> str:
    return "/".join(info.key.split("/")[:3]) + "/"


def _read_folder(prefix: str, infos: list[ObjectInfo]) -> _CacheFolder:
    entry = next((info for info in infos if info.key == f"{prefix}{object_keys.ENTRY}"), None)
    used_at = entry.modified_at if entry else max(info.modified_at for info in infos)
    return _CacheFolder(prefix, sum(info.size_bytes for info in infos), used_at, entry is not None)
