"""Queries and operations on existing jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from app.conversion import model, object_keys
from app.conversion.errors import ArtifactNotReady, JobActive, JobFinished, JobNotFound
from app.conversion.metrics import count_end
from app.conversion.model import Artifact, JobRecord, Stage, StageRecord, StageState, Status
from app.conversion.service.descriptions import Descriptions
from app.conversion.service.end_message import end_message
from app.conversion.stage_cache import StageCache
from app.conversion.store import JobFilter, JobStore, job_not_found
from app.kit.clock import from_text, now, to_text
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.queue.blocking_broker import BlockingBroker

MAX_PORTION_BYTES = 4 << 20
LOG_COMES_WITHIN_S = 20
"""After a cancellation the worker ends the toolchain and then stores the log; a lost worker never does."""


@dataclass(frozen=True)
class LogPortion:
    text: bytes
    """The bytes from the requested offset on."""
    next_offset: int
    is_complete: bool
    """Whether the stage has ended and its log is complete."""


class Jobs:
    """Every operation takes the user; another user's job is treated as missing.

    Args:
        broker: removes messages of cancelled jobs from its queues.
        objects: stores files of jobs.
        cache: the outputs of stages, whose entries are deleted with their jobs.
    """

    def __init__(self, store: JobStore, broker: BlockingBroker, objects: ObjectStore, cache: StageCache) -> None:
        self.store = store
        self.broker = broker
        self.objects = objects
        self.cache = cache
        self.descriptions = Descriptions(objects)

    def get(self, job_id: str, user: str) -> JobRecord:
        record = self.store.get(job_id) if object_keys.is_uuid4(job_id) else None
        if record is None or record.owner != user:
            raise job_not_found(job_id)
        return record

    def known(self, job_id: str, user: str) -> JobRecord:
        """The job, or its archived description after its record is forgotten."""
        try:
            return self.get(job_id, user)
        except JobNotFound:
            archived = self.descriptions.read(job_id) if object_keys.is_uuid4(job_id) else None
            if archived is None or archived.record.owner != user:
                raise
            return archived.record

    def known_several(self, job_ids: Collection[str], user: str) -> list[JobRecord]:
        """The ones of these jobs that exist or are in the archive, in the requested order."""
        present = {record.job_id: record for record in self.several(job_ids, user)}
        records = []
        for job_id in job_ids:
            with contextlib.suppress(JobNotFound):
                records.append(present.get(job_id) or self.known(job_id, user))
        return records

    def page(
        self, job_filter: JobFilter, user: str, *, limit: int, cursor: str | None, max_read: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        """Returns a page of the user's matching jobs, newest first. Other users' jobs are treated as missing.

        Args:
            cursor: from the previous page; None: the first page.
            max_read: maximum number of records read for one page; None: no limit. A page may then have fewer than
                `limit`, with others following.

        Returns:
            The jobs, and the cursor of the next page; None: this was the last.
        """
        if job_filter.owner not in (None, user):
            return [], None
        return self.store.page(replace(job_filter, owner=user), limit=limit, cursor=cursor, max_read=max_read)

    def several(self, job_ids: Iterable[str], user: str) -> list[JobRecord]:
        """The existing ones of these jobs, in the requested order."""
        records = self.store.several([job_id for job_id in job_ids if object_keys.is_uuid4(job_id)])
        return [record for record in records if record.owner == user]

    def queue_position(self, record: JobRecord) -> int | None:
        """Number of jobs ahead in the queue of its stage; None if it does not wait."""
        if record.is_terminal or record.current.state is not StageState.QUEUED:
            return None
        return self.broker.position(record.stage.step, record.job_id)

    def cancel(self, job_id: str, user: str) -> JobRecord:
        """Ends the job, queued or running. Processes of a running stage are killed within seconds."""
        record = self.get(job_id, user)
        while not record.is_terminal:
            end = model.cancelled(record.stage, now=to_text(now()))
            if self.store.apply(job_id, end, end_message(self.broker, job_id)):
                self.broker.take_back(record.stage.step, job_id)
                count_end(record.stage.step, Status.FAILED, model.CANCELLED)
                return self.get(job_id, user)
            record = self.get(job_id, user)
        raise JobFinished(
            f"Job {job_id} has already ended: {record.status}" + (f" ({record.error.reason})." if record.error else ".")
        )

    def count_active(self, user: str) -> int:
        return sum(record.owner == user for record in self.store.active())

    def cancel_all(self, user: str) -> None:
        """Cancels this user's jobs; one that ends meanwhile is unchanged."""
        for record in self.store.active():
            if record.owner == user:
                with contextlib.suppress(JobFinished, JobNotFound):
                    self.cancel(record.job_id, user)

    def delete(self, job_id: str, user: str) -> None:
        """Deletes a finished job and all its files."""
        self.delete_known(self.get(job_id, user))

    def delete_known(self, record: JobRecord) -> None:
        """Like delete; the job may be one that only the archive has."""
        if not record.is_terminal:
            raise JobActive(f"Job {record.job_id} has not ended yet.", hint="Cancel it first.")
        delete_job(self.store, self.objects, self.cache, record.owner, record.job_id)
        self.store.note_archived(record.owner, record.job_id)

    def artifact(self, job_id: str, name: str, user: str) -> Artifact:
        """Returns an artifact of a job.

        Raises:
            ArtifactNotReady: It has none of this name (yet).
        """
        record = self.get(job_id, user)
        artifact = record.artifacts.get(name)
        if artifact is None:
            there = ", ".join(sorted(record.artifacts)) or "none"
            raise ArtifactNotReady(f"Job {job_id} has no artifact {name!r} (yet).", hint=f"There are: {there}.")
        return artifact

    def read(self, artifact: Artifact, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        return self.objects.read(artifact.key, start=start, end=end)

    def link(self, artifact: Artifact, name: str, *, expires_s: int) -> str:
        return self.objects.presign_get(artifact.key, expires_s=expires_s, download_name=name)

    def log(self, job_id: str, stage: Stage, offset: int, user: str) -> LogPortion:
        """Returns the log of a stage: live while it runs, from the store afterwards.

        Args:
            offset: in bytes, where the portion starts.

        Raises:
            JobNotFound: It is not this user's, either.
        """
        record = self.get(job_id, user)
        own = record.stages[stage.step]
        if record.is_terminal or own.state is StageState.DONE:
            with contextlib.suppress(ObjectMissing):
                return self._read_stored_log(object_keys.log(job_id, stage), offset)
            return LogPortion(b"", offset, is_complete=not _may_log_come(own))
        text = self.store.log_tail(job_id, stage.step, offset)
        return LogPortion(text, offset + len(text), is_complete=False)

    def log_tail(self, record: JobRecord, stage: Stage, max_bytes: int) -> bytes:
        """Returns the end of a stage's log, starting with a complete line.

        Args:
            record: A record that `get` gave.
        """
        stored = record.artifacts.get(f"{stage.step}.log")
        text = b""
        if stored is None:
            text = self.store.log_tail(record.job_id, stage.step, -max_bytes)
        else:
            with contextlib.suppress(ObjectMissing):
                text = b"".join(self.objects.read(stored.key, start=max(0, stored.size_bytes - max_bytes)))
        return text.partition(b"\n")[2] if len(text) == max_bytes else text

    def _read_stored_log(self, key: str, offset: int) -> LogPortion:
        size = self.objects.info(key).size_bytes
        text = b"".join(self.objects.read(key, start=offset, end=offset + MAX_PORTION_BYTES))
        return LogPortion(text, offset + len(text), is_complete=offset + len(text) >= size)


def delete_job(store: JobStore, objects: ObjectStore, cache: StageCache, owner: str, job_id: str) -> None:
    """Deletes a job with everything stored of it, including its cache entries. Its description is deleted first, so
    that the archive never has a part of it.

    Args:
        cache: where outputs of its stages may be in use by others' jobs; they stay.
    """
    objects.delete(object_keys.owned(owner, job_id))
    objects.delete(object_keys.description(job_id))
    cache.forget_job(owner, job_id)
    objects.delete_prefix(object_keys.job(job_id))
    store.delete(job_id)
    objects.delete_prefix(object_keys.job(job_id))  # a worker that has just cancelled its stage stores the log


def _may_log_come(ended: StageRecord) -> bool:
    if ended.started_at is None or ended.finished_at is None:
        return False
    return abs((now() - from_text(ended.finished_at)).total_seconds()) < LOG_COMES_WITHIN_S
