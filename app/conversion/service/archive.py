"""The archive: completed jobs, searchable however often Redis has been reset since.

The object store is authoritative (see `descriptions`); SQL has an index of it, which readers update: from recorded
changes, and after a reset, when these may be lost, by comparison with the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta

from app.conversion import archive_index as index
from app.conversion import object_keys
from app.conversion.archive_index import ArchiveFilter
from app.conversion.archive_schemas import ArchivedJobRow
from app.conversion.errors import ArtifactNotReady, NotArchived
from app.conversion.model import Artifact, JobRecord
from app.conversion.service.descriptions import ArchivedJob, Descriptions
from app.conversion.service.jobs import delete_job
from app.conversion.service.submissions import Submissions
from app.conversion.stage_cache import StageCache
from app.conversion.store import JobStore
from app.kit.clock import from_text
from app.kit.objects import ObjectStore
from app.kit.sql import Database
from app.kit.sql.pages import cut_page, read_cursor

SEPARATOR = "_"


@dataclass(frozen=True)
class Rebuilt:
    """The result of rebuilding the index."""

    jobs: int
    removed: int
    """Rows of jobs that no longer exist."""
    unreadable: int
    """Descriptions that this release cannot read."""


@dataclass(eq=False)
class Archive:
    """Every operation takes the user; another user's job is treated as missing.

    Args:
        is_user: Whether a user of this name exists.
        gone_ttl: How long the jobs of a deleted user stay.
    """

    database: Database
    store: JobStore
    objects: ObjectStore
    cache: StageCache
    submissions: Submissions
    _: KW_ONLY
    is_user: Callable[[str], bool]
    gone_ttl: timedelta

    def __post_init__(self) -> None:
        self.descriptions = Descriptions(self.objects)

    def page(
        self, criteria: ArchiveFilter, user: str, *, limit: int, cursor: str | None = None
    ) -> tuple[list[ArchivedJobRow], str | None]:
        """Returns a page of the archive, the last finished first.

        Args:
            cursor: from the previous page; None: the first page.

        Returns:
            The jobs, and the cursor of the next page; None: this was the last.
        """
        self.catch_up(user)
        with self.database.read() as conn:
            rows = index.page(conn, user, criteria, after=read_cursor(cursor, SEPARATOR), limit=limit + 1)
        return cut_page(rows, limit, lambda row: (row.finished_at, row.job_id), SEPARATOR)

    def get(self, job_id: str, user: str) -> ArchivedJob:
        """Returns a job of the archive.

        Raises:
            NotArchived: It is not there, or another user's.
        """
        job = self.descriptions.read(job_id) if object_keys.is_uuid4(job_id) else None
        if job is None or job.record.owner != user:
            raise NotArchived(
                f"There is no job {job_id} in the archive.",
                hint="`modelmill archive list` or GET /archive lists what is there.",
            )
        return job

    def artifact(self, job_id: str, name: str, user: str) -> Artifact:
        """Returns a file of a job.

        Raises:
            NotArchived: See `get`.
            ArtifactNotReady: It has none of this name.
        """
        artifacts = self.get(job_id, user).record.artifacts
        if name not in artifacts:
            raise ArtifactNotReady(
                f"Job {job_id} has no artifact {name!r}.", hint=f"There are: {', '.join(sorted(artifacts))}."
            )
        return artifacts[name]

    def read(self, artifact: Artifact, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        return self.objects.read(artifact.key, start=start, end=end)

    def convert_again(self, job_id: str, user: str) -> JobRecord:
        """Submits the inputs of this job again as a new job. The errors are those of a submission, and these.

        Raises:
            NotArchived: See `get`.
            ObjectMissing: Its submission is not stored any more.
        """
        self.get(job_id, user)
        return self.submissions.submit(self.submissions.remembered(job_id, user))

    def delete(self, job_id: str, user: str) -> None:
        """Deletes permanently: its files, its row, and its record if it still exists."""
        self.get(job_id, user)
        self._delete(job_id, user)

    def catch_up(self, owner: str) -> None:
        """Updates the index of this owner's jobs."""
        notes = self.store.archive_news(owner)
        job_ids, since = set(notes.values()), self.store.began_at()
        with self.database.read() as conn:
            is_compared = index.find_compared_since(conn, owner) == since
            known = set() if is_compared else index.ids_of(conn, owner)
        if not is_compared:
            stored = {info.key.rpartition("/")[2] for info in self.objects.list(object_keys.owned(owner, ""))}
            job_ids |= known ^ stored
        if not job_ids and is_compared:
            return
        self._look_again(owner, job_ids, None if is_compared else since)
        self.store.clear_archive_news(owner, notes)

    def rebuild(self) -> Rebuilt:
        """Rebuilds the whole index from the store alone. What ends or is deleted meanwhile, the next reader of the
        owner finds, who compares again."""
        job_ids = set(self.descriptions.ids())
        jobs = [job for job in map(self.descriptions.read, sorted(job_ids)) if job is not None]
        with self.database.write() as conn:
            gone = index.ids_of(conn) - {job.record.job_id for job in jobs}
            index.remove(conn, gone)
            for job in jobs:
                index.put(conn, index.row_of(job.record, is_kept=job.is_kept))
            index.forget_compared(conn)
        return Rebuilt(len(jobs), len(gone), len(job_ids) - len(jobs))

    def expire_deleted_users(self, moment: datetime) -> None:
        """Jobs of a deleted user are not kept: their files expire like those of any other job."""
        with self.database.read() as conn:
            owners = index.owners_of(conn)
        for owner in sorted(owners):
            if not self.is_user(owner):
                self._expire(owner, moment - self.gone_ttl)

    def _expire(self, owner: str, before: datetime) -> None:
        with self.database.read() as conn:
            rows = [row for job_id in index.ids_of(conn, owner) if (row := index.get(conn, job_id)) is not None]
        for row in rows:
            if from_text(row.finished_at) < before:
                self._delete(row.job_id, owner)

    def _look_again(self, owner: str, job_ids: Iterable[str], since: str | None) -> None:
        """Updates these entries from the store, and records that nothing else of this owner has changed since then, if
        they are the result of a comparison."""
        jobs = {job_id: self.descriptions.read(job_id) for job_id in job_ids}
        present = [job for job in jobs.values() if job is not None and job.record.owner == owner]
        with self.database.write() as conn:
            index.remove(conn, set(jobs) - {job.record.job_id for job in present})
            for job in present:
                index.put(conn, index.row_of(job.record, is_kept=job.is_kept))
            if since is not None:
                index.note_compared(conn, owner, since)

    def _delete(self, job_id: str, owner: str) -> None:
        delete_job(self.store, self.objects, self.cache, owner, job_id)
        with self.database.write() as conn:
            index.remove(conn, [job_id])
