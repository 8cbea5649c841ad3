"""Jobs whose files are in the object store although Redis has forgotten them: a reset ends jobs, but keeps their
results.

Each submission leaves an empty object below its owner's name, so that one listing finds them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.conversion import object_keys
from app.conversion.errors import ResultNotFound
from app.conversion.options import Options
from app.conversion.service.submissions import Submissions
from app.conversion.store import JobStore
from app.kit.clock import from_text, now
from app.kit.objects import ObjectMissing, ObjectStore

CLOCKS_APART = timedelta(minutes=5)
"""Tolerance for the difference between the clocks of the object store and of Redis' clients."""


@dataclass(frozen=True)
class StoredArtifact:
    name: str
    """The artifact's name."""
    key: str
    size_bytes: int
    etag: str


@dataclass(frozen=True)
class StoredJob:
    job_id: str
    name: str
    tags: tuple[str, ...]
    options: Options
    created_at: datetime
    files: tuple[StoredArtifact, ...]

    @property
    def is_finished(self) -> bool:
        return any(file.name == object_keys.LAST_OUTPUT for file in self.files)


class Results:
    """The stored results of jobs that a reset has ended.

    Args:
        objects: stores inputs and outputs.
        submissions: submits a forgotten job again.
        job_ttl_s: how long results are kept, in seconds.
    """

    def __init__(self, store: JobStore, objects: ObjectStore, submissions: Submissions, *, job_ttl_s: int) -> None:
        self.store = store
        self.objects = objects
        self.submissions = submissions
        self.job_ttl = timedelta(seconds=job_ttl_s)

    def forgotten(self, owner: str) -> list[str]:
        """Ids, newest first."""
        since = from_text(self.store.began_at())
        if now() - since > self.job_ttl:  # older objects have expired
            return []
        listed = [
            (info.modified_at, info.key.rpartition("/")[2]) for info in self.objects.list(object_keys.owned(owner, ""))
        ]
        before = [job_id for at, job_id in sorted(listed, reverse=True) if at < since + CLOCKS_APART]
        remembered = self.store.existing(before)
        return [job_id for job_id in before if job_id not in remembered]

    def page(self, owner: str, *, limit: int, after: str | None = None) -> tuple[list[StoredJob], str | None]:
        """Newest first, after the job `after`; and the last one's id if more follow."""
        ids = self.forgotten(owner)
        start = ids.index(after) + 1 if after in ids else 0
        page_ids = ids[start : start + limit]
        jobs = [job for job in (self._find_stored(job_id, owner) for job_id in page_ids) if job is not None]
        return jobs, page_ids[-1] if start + limit < len(ids) else None

    def get(self, job_id: str, owner: str) -> StoredJob:
        """Returns the stored results of a job.

        Raises:
            ResultNotFound: There are none, or they are another user's.
        """
        job = self._find_stored(job_id, owner) if object_keys.is_uuid4(job_id) else None
        if job is None:
            raise ResultNotFound(f"Nothing is stored of a job {job_id}.", hint="GET /results lists what is stored.")
        return job

    def file(self, job_id: str, name: str, owner: str) -> StoredArtifact:
        """Returns a file of stored results.

        Raises:
            ResultNotFound: There is none, or it is another user's.
        """
        files = {file.name: file for file in self.get(job_id, owner).files}
        if name not in files:
            there = ", ".join(files) or "none"
            raise ResultNotFound(f"No file {name!r} is stored of job {job_id}.", hint=f"There are: {there}.")
        return files[name]

    def read(self, file: StoredArtifact, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        return self.objects.read(file.key, start=start, end=end)

    def _find_stored(self, job_id: str, owner: str) -> StoredJob | None:
        try:
            request = self.submissions.stored_request(job_id, owner)
        except ObjectMissing:
            return None
        files = (
            StoredArtifact(name, info.key, info.size_bytes, info.etag)
            for info in self.objects.list(object_keys.job(job_id))
            if (name := object_keys.artifact_name(info.key)) is not None
        )
        return StoredJob(
            job_id,
            request["name"],
            tuple(request["tags"]),
            Options.model_validate(request["options"]),
            from_text(request["created_at"]),
            tuple(sorted(files, key=lambda file: file.name)),
        )
