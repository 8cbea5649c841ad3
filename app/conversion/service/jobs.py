"""What can be asked and done about jobs that exist."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from app.conversion import keys, model
from app.conversion.errors import ArtifactNotReady, JobActive, JobFinished
from app.conversion.model import Artifact, JobRecord, Stage, StageState
from app.conversion.store import Filter, JobStore, job_not_found
from app.kit.clock import now, to_text
from app.kit.errors import BadRequest
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.waiting_broker import WaitingBroker

MAX_PORTION_BYTES = 4 << 20


@dataclass(frozen=True)
class LogPortion:
    """text: the bytes from the offset asked for. is_complete: the stage has ended and nothing follows these."""

    text: bytes
    next_offset: int
    is_complete: bool


class Jobs:
    """Every verb takes the user; another user's job is answered like one that does not exist."""

    def __init__(self, store: JobStore, broker: WaitingBroker, objects: ObjectStore) -> None:
        self.store = store
        self.broker = broker
        self.objects = objects

    def get(self, job_id: str, user: str) -> JobRecord:
        record = self.store.get(job_id) if keys.is_uuid4(job_id) else None
        if record is None or record.owner != user:
            raise job_not_found(job_id)
        return record

    def page(self, wanted: Filter, *, limit: int, cursor: str | None) -> tuple[list[JobRecord], str | None]:
        try:
            return self.store.page(wanted, limit=limit, cursor=cursor)
        except ValueError:
            raise BadRequest("This cursor is none of ours.", hint="Use next_cursor of the page before.") from None

    def queue_position(self, record: JobRecord) -> int | None:
        """How many jobs are ahead in the queue of its stage; None when it does not wait."""
        if record.is_terminal or record.current.state is not StageState.QUEUED:
            return None
        return self.broker.position(record.stage.step, record.job_id)

    def cancel(self, job_id: str, user: str) -> JobRecord:
        """End the job, queued or running. A running stage's processes are killed within seconds."""
        record = self.get(job_id, user)
        while not record.is_terminal:
            if self.store.apply(job_id, model.cancelled(record.stage, now=to_text(now()))):
                self.broker.take_back(record.stage.step, job_id)
                return self.get(job_id, user)
            record = self.get(job_id, user)
        raise JobFinished(
            f"Job {job_id} has already ended: {record.status}"
            + (f" ({record.error.reason})." if record.error else ".")
        )  # fmt: skip

    def delete(self, job_id: str, user: str) -> None:
        """Forget a finished job and all its files."""
        record = self.get(job_id, user)
        if not record.is_terminal:
            raise JobActive(f"Job {job_id} has not ended yet.", hint="Cancel it first.")
        self.objects.delete_prefix(keys.job(job_id))
        self.store.delete(job_id)

    def artifact(self, job_id: str, name: str, user: str) -> Artifact:
        """Raises ArtifactNotReady when the job has no such artifact (yet)."""
        record = self.get(job_id, user)
        found = record.artifacts.get(name)
        if found is None:
            there = ", ".join(sorted(record.artifacts)) or "none"
            raise ArtifactNotReady(f"Job {job_id} has no artifact {name!r} (yet).", hint=f"There are: {there}.")
        return found

    def read(self, artifact: Artifact, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        return self.objects.read(artifact.key, start=start, end=end)

    def link(self, artifact: Artifact, name: str, *, expires_s: int) -> str:
        return self.objects.presign_get(artifact.key, expires_s=expires_s, download_name=name)

    def log(self, job_id: str, stage: Stage, offset: int, user: str) -> LogPortion:
        """The log of a stage from an offset in bytes: live while it runs, from the store afterwards."""
        record = self.get(job_id, user)
        state = record.stages[stage.step].state
        is_over = record.is_terminal or state is StageState.DONE
        if is_over:
            with contextlib.suppress(ObjectMissing):
                key = keys.log(job_id, stage)
                size = self.objects.info(key).size_bytes
                text = b"".join(self.objects.read(key, start=offset, end=offset + MAX_PORTION_BYTES))
                return LogPortion(text, offset + len(text), is_complete=offset + len(text) >= size)
        text = self.store.log_tail(job_id, stage.step, offset)
        return LogPortion(text, offset + len(text), is_complete=is_over)
