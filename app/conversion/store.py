"""The store of jobs, and the only writer of job records: nothing else assigns a status.

`apply` compares the job's state with the change's entry in the transition table, and sets the fields, in one step; a
refused change returns None, which is how a duplicate, late or forged message ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import redis

from app.conversion import model
from app.conversion.errors import JobNotFound
from app.conversion.model import Artifact, Change, JobRecord
from app.conversion.model.digest import DIGEST_FIELDS
from app.kit.clock import now, to_text
from app.kit.redis.connections import ScriptCall
from app.kit.redis.records import CreateAnswer, JobLimit, OutgoingMessage, Records
from app.kit.redis.worker_registry import announce, living_workers, retire

CHUNK = 200
LIVE_LOG_TTL_S = 86400
SUSPECT_TTL_S = 600
NEWS = "archive:news"
UNARCHIVED = "archive:late"
BEGAN_AT = "began_at"


@dataclass(frozen=True)
class JobFilter:
    """Which jobs to list; None means any. text matches id, name and tags, without regard to case."""

    status: str | None = None
    toolchain: str | None = None
    platform: str | None = None
    owner: str | None = None
    text: str | None = None

    def accepts(self, record: JobRecord) -> bool:
        options = record.options
        exact = (
            (self.status, record.status.value),
            (self.toolchain, options.toolchain.value),
            (self.platform, options.platform.value if options.platform else None),
            (self.owner, record.owner),
        )
        if any(expected is not None and expected != actual for expected, actual in exact):
            return False
        words = " ".join((record.job_id, record.name, *record.tags)).lower()
        return self.text is None or self.text.lower() in words


@dataclass(frozen=True)
class ProgressReport:
    """A worker's description of itself and of its stage."""

    worker: str
    worker_text: str
    ttl_s: float
    progress: int
    message: str
    started_at: str
    now: str
    is_news: bool


class JobStore:
    """
    Args:
        record_ttl_s: How long the record of a finished job is kept.
        live_log_bytes: How much of a running stage's log is kept, at most.
    """

    def __init__(self, client: redis.Redis, *, record_ttl_s: int, live_log_bytes: int) -> None:
        self.client: Any = client
        self.records = Records(client, "job", group_field="owner", indexed=DIGEST_FIELDS)
        self.record_ttl_s = record_ttl_s
        self.live_log_bytes = live_log_bytes

    def create(
        self, record: JobRecord, *, score: float, room: JobLimit | None = None, message: OutgoingMessage | None = None
    ) -> CreateAnswer:
        """Creates the record of a job.

        Args:
            score: Its position among the others: microseconds since the epoch.
            room: The limit of active jobs; None for no limit.
            message: A message to send in the same step.
        """
        return self.records.create(record.job_id, model.to_fields(record), score=score, room=room, message=message)

    def full(self, room: JobLimit) -> CreateAnswer | None:
        """Why another job would be refused now; None if it would not."""
        return self.records.full(room)

    def get(self, job_id: str) -> JobRecord | None:
        fields = self.records.read(job_id)
        return model.from_fields(fields) if fields else None

    def existing(self, job_ids: Sequence[str]) -> set[str]:
        """Those of these ids that have a record."""
        with self.client.pipeline(transaction=False) as pipe:
            for job_id in job_ids:
                pipe.exists(self.records.key(job_id))
            return {job_id for job_id, is_there in zip(job_ids, pipe.execute(), strict=True) if is_there}

    def began_at(self) -> str:
        """The start of Redis' memory: another time after each reset. Set by the first reader."""
        with self.client.pipeline(transaction=True) as pipe:
            pipe.set(BEGAN_AT, to_text(now()), nx=True)
            pipe.get(BEGAN_AT)
            return str(pipe.execute()[1].decode())

    def require(self, job_id: str) -> JobRecord:
        record = self.get(job_id)
        if record is None:
            raise job_not_found(job_id)
        return record

    def apply(self, job_id: str, change: Change, message: OutgoingMessage | None = None) -> bool:
        """Changes the job if it has the required state; otherwise returns False.

        Args:
            message: A message to send in the same step.
        """
        return bool(self.apply_call(job_id, change, message)())

    def apply_call(self, job_id: str, change: Change, message: OutgoingMessage | None = None) -> ScriptCall:
        """Returns the same as a call that returns 1 or 0."""
        return self.records.change_call(
            job_id,
            _list_guards(change),
            change.fields,
            ttl_s=self.record_ttl_s if change.is_end else None,
            drop_text=f"log:{change.stage.step}",
            message=message,
        )

    def edit(self, job_id: str, owner: str, values: Mapping[str, Any], *, at: str) -> bool:
        """Changes the fields that a user may change at any time. False if the user has no such job.

        Args:
            values: name, tags, notes, keep.
        """
        fields = {**model.edit_fields(values), "updated_at": at}
        return bool(self.records.change_call(job_id, {"owner": [owner]}, fields, ttl_s=None)())

    def add_artifacts(self, job_id: str, artifacts: Mapping[str, Artifact]) -> bool:
        """Changes a completed job. False if it no longer exists."""
        guards = {"status": [model.Status.COMPLETED.value]}
        return bool(self.records.change_call(job_id, guards, model.artifact_fields(dict(artifacts)), ttl_s=None)())

    def claim(self, job_id: str, claim: Change) -> JobRecord | None:
        """Like apply, and returns the claimed job.

        The same claim may be repeated: if the response was lost, the second attempt finds it in place.
        """
        fields = self.records.change_and_read(job_id, _list_guards(claim), claim.fields)
        return model.from_fields(fields) if fields and fields["claim"] == claim.fields["claim"] else None

    def claim_by_fetch(self, claim: Change) -> list[Any]:
        """The same claim for a fetch to make, see Records.claim_by_fetch."""
        return self.records.claim_by_fetch(_list_guards(claim), claim.fields)

    def beat(self, record: JobRecord, beat: ProgressReport) -> bool:
        """Sends heartbeat and progress. False if the job was cancelled, deleted or forgotten meanwhile."""
        live = {}
        if beat.is_news:
            live = model.live_fields(
                record.stage, beat.progress, beat.message, started_at=beat.started_at, now=beat.now
            )
        return self.records.beat(
            record.job_id,
            record.claim,
            worker=beat.worker,
            worker_text=beat.worker_text,
            ttl_ms=int(beat.ttl_s * 1000),
            fields=live,
        )

    def page(
        self, job_filter: JobFilter, *, limit: int, cursor: str | None, max_read: int | None = None
    ) -> tuple[list[JobRecord], str | None]:
        """Returns the newest first. The cursor is a position in time, so pages survive new jobs.

        Args:
            limit: How many records to return.
            cursor: The cursor of the previous page.
            max_read: About how many records to read; if they did not fill the page, the cursor continues from there.
        """
        score = f"({float(cursor)!r}" if cursor else "+inf"
        records: list[JobRecord] = []
        read = 0
        while ids := self.records.ids_before(score, CHUNK):
            read += len(ids)
            for record, (job_id, created) in zip(self._read([i for i, _ in ids]), ids, strict=True):
                score = f"({created!r}"
                if record is None:
                    self.records.forget([job_id])
                elif job_filter.accepts(record):
                    records.append(record)
                    if len(records) == limit:
                        return records, repr(created)
            if max_read is not None and read >= max_read:
                return records, repr(ids[-1][1])
        return records, None

    def newest(self, count: int) -> list[JobRecord]:
        return self.several(job_id for job_id, _ in self.records.ids_before("+inf", count))

    def several(self, job_ids: Iterable[str]) -> list[JobRecord]:
        """The existing ones of these."""
        return [record for record in self._read(job_ids) if record is not None]

    def active(self) -> Iterator[JobRecord]:
        ids = self.records.active_ids()
        for job_id, record in zip(ids, self._read(ids), strict=True):
            if record is None:
                self.records.forget([job_id])
            elif not record.is_terminal:
                yield record

    def delete(self, job_id: str) -> None:
        self.records.delete(job_id)

    def log_append(self, job_id: str, step: str, text: bytes) -> None:
        self.records.append(job_id, f"log:{step}", text, cap_bytes=self.live_log_bytes, ttl_s=LIVE_LOG_TTL_S)

    def log_tail(self, job_id: str, step: str, offset: int) -> bytes:
        return self.records.tail(job_id, f"log:{step}", offset)

    def note_lost(self, what: str, *, after_s: float) -> bool:
        """Records that something seems lost: a claim whose worker has no heartbeat, a job that is on no queue.

        True if that was recorded at least after_s ago, by the clock of Redis.
        """
        key = f"suspect:{what}"
        if self.client.set(key, "1", nx=True, ex=SUSPECT_TTL_S):
            return False
        return bool(self.client.ttl(key) <= SUSPECT_TTL_S - after_s)

    def clear_lost(self, what: str) -> None:
        self.client.delete(f"suspect:{what}")

    def note_archived(self, owner: str, job_id: str) -> None:
        """The archive has added, removed or changed this job: its index must check it."""
        self.client.sadd(f"{NEWS}:{owner}", f"{job_id}#{uuid4().hex}")

    def archive_news(self, owner: str) -> dict[str, str]:
        """The recorded changes of this owner's jobs: each note, and its job's id."""
        notes = (note.decode() for note in self.client.smembers(f"{NEWS}:{owner}"))
        return {note: note.partition("#")[0] for note in notes}

    def clear_archive_news(self, owner: str, notes: Iterable[str]) -> None:
        """The index has processed these notes; newer ones stay."""
        taken_in = list(notes)
        if taken_in:
            self.client.srem(f"{NEWS}:{owner}", *taken_in)

    def note_unarchived(self, job_id: str) -> None:
        """It completes while the object store is unreachable."""
        self.client.sadd(UNARCHIVED, job_id)

    def unarchived(self) -> list[str]:
        return [job_id.decode() for job_id in self.client.smembers(UNARCHIVED)]

    def forget_unarchived(self, job_id: str) -> None:
        self.client.srem(UNARCHIVED, job_id)

    def announce(self, worker: str, text: str, ttl_s: float) -> None:
        """The heartbeat of an idle worker."""
        announce(self.client, worker, text, ttl_s)

    def retire(self, worker: str) -> None:
        """A worker reports its end."""
        retire(self.client, worker)

    def workers(self) -> dict[str, dict[str, object]]:
        """Every live worker by its name: {queue, pid, host, job_id, since, toolchains}."""
        return {name: json.loads(text) for name, text in living_workers(self.client)}

    def _read(self, ids: Iterable[str]) -> list[JobRecord | None]:
        return [model.from_fields(fields) if fields else None for fields in self.records.read_many(ids)]


def _list_guards(change: Change) -> dict[str, Iterable[str]]:
    """The required state of the job."""
    guards: dict[str, Iterable[str]] = {"status": (change.status,), f"{change.stage.step}.state": change.states}
    return guards if change.claim is None else {**guards, "claim": [change.claim]}


def job_not_found(job_id: str) -> JobNotFound:
    return JobNotFound(
        f"There is no job {job_id}.",
        hint="系統已重啟,請重新送出 / If it existed, the system was restarted: please submit it again, unless it had "
        "completed and GET /archive lists it.",
    )
