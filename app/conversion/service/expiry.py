"""Deletes what has expired: finished jobs with all their files, and uploads that no job took."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import groupby

from app.conversion import object_keys
from app.conversion.store import JobStore
from app.kit.objects import ObjectMissing, ObjectStore


class Expiry:
    """Args:
    job_ttl_s: How long the files of a job are kept, counted from the last that was stored.
    upload_ttl_s: How long an upload is kept that no job has taken.
    """

    def __init__(self, store: JobStore, objects: ObjectStore, *, job_ttl_s: int, upload_ttl_s: int) -> None:
        self.store = store
        self.objects = objects
        self.job_ttl = timedelta(seconds=job_ttl_s)
        self.upload_ttl = timedelta(seconds=upload_ttl_s)

    def sweep(self, now: datetime) -> None:
        """Delete what has expired; safe to repeat. A job that still runs keeps its files, however old they are."""
        for job_id in self._expired("jobs/", now - self.job_ttl):
            if self._is_kept(job_id):
                continue
            record = self.store.get(job_id)
            if record is None or record.is_terminal:
                self._forget_owner(job_id)
                self.objects.delete_prefix(object_keys.job(job_id))
                self.store.delete(job_id)
        for info in list(self.objects.list(object_keys.OWNERS)):
            if info.modified_at < now - 2 * self.job_ttl:  # of jobs whose files went in another way
                self.objects.delete(info.key)
        for info in list(self.objects.list(object_keys.UPLOADING)):
            if info.modified_at < now - self.upload_ttl:
                self.objects.delete(info.key)
        for upload_id in self._expired("uploads/", now - self.upload_ttl):
            self.objects.delete_prefix(object_keys.upload(upload_id, ""))

    def _is_kept(self, job_id: str) -> bool:
        with suppress(ObjectMissing):
            self.objects.info(object_keys.kept(job_id))
            return True
        return False

    def _forget_owner(self, job_id: str) -> None:
        with suppress(ObjectMissing, ValueError):
            request = json.loads(b"".join(self.objects.read(object_keys.request(job_id))))
            self.objects.delete(object_keys.owned(request["owner"], job_id))

    def _expired(self, prefix: str, before: datetime) -> list[str]:
        """The ids under a prefix of which every file is older."""
        by_id = groupby(self.objects.list(prefix), key=lambda info: info.key.split("/")[1])
        newest = {entry_id: max(info.modified_at for info in files) for entry_id, files in by_id}
        return [entry_id for entry_id, moment in newest.items() if moment < before]
