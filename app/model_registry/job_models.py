"""Models made by conversion jobs: which job a name refers to, and its model."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from app.conversion.errors import ArtifactNotReady, JobNotFound
from app.conversion.model import JobRecord, Status
from app.conversion.object_keys import is_uuid4
from app.conversion.service.jobs import Jobs
from app.conversion.store import JobFilter
from app.inference.model_card import Format, ModelCard
from app.inference.prediction import Decoder
from app.kit.clock import to_text
from app.kit.text.json_values import JsonObject
from app.model_registry.model import FACTS, Model, file_of
from app.model_registry.storage import Source

JOBS_AT_ONCE = 50


class JobModels:
    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def job(self, user: str, job: str, file_format: Format) -> JobRecord | None:
        """Returns the job with this id in any state, or the newest completed one with exactly this name; None if it
        lacks the file.

        Args:
            job: id or name.
        """
        record = self._find_job(user, job)
        return record if record is not None and file_of(file_format) in record.artifacts else None

    def _find_job(self, user: str, job: str) -> JobRecord | None:
        cursor = None
        if is_uuid4(job):
            with suppress(JobNotFound):
                return self.jobs.get(job, user)
        completed = JobFilter(status=Status.COMPLETED.value, text=job)
        while True:
            records, cursor = self.jobs.page(completed, user, limit=JOBS_AT_ONCE, cursor=cursor)
            for record in records:
                if record.name == job:
                    return record
            if cursor is None:
                return None

    def made(
        self,
        user: str,
        name: str,
        record: JobRecord,
        file_format: Format,
        *,
        now: datetime,
        decoder: Decoder = Decoder.AUTO,
        labels: Sequence[str] = (),
        note: str = "",
    ) -> tuple[Model, list[Source]]:
        """Returns the model, and the files to store for it.

        Args:
            file_format: which of the job's files.
            note: the user's note.

        Raises:
            ArtifactNotReady: The job has not made this file (yet).
        """
        if record.status is not Status.COMPLETED:
            raise not_completed(record)
        if file_of(file_format) not in record.artifacts:
            raise ArtifactNotReady(
                f"Job {record.job_id} has no {file_of(file_format)}.", hint="Choose another of its files."
            )
        artifact = record.artifacts[file_of(file_format)]
        twin = None if file_format is Format.ONNX else record.artifacts.get(file_of(Format.ONNX))
        card = ModelCard(
            name=name,
            format=file_format,
            sha256=artifact.sha256,
            size_bytes=artifact.size_bytes,
            toolchain=record.options.toolchain.value,
            twin_sha256=twin.sha256 if twin else "",
            twin_size_bytes=twin.size_bytes if twin else 0,
            preprocess=record.options.preprocess.to_json(),
            decoder=decoder,
            labels=tuple(labels),
        )
        intake = record.intake.get("model", {})
        facts = {key: intake.get(key) for key in FACTS}
        model = Model(user, card, to_text(now), record.job_id, facts, note=note, metrics=_collect_metrics(record))
        return model, [artifact, *([twin] if twin else [])]


def _collect_metrics(record: JobRecord) -> JsonObject:
    """Returns what a conversion has measured of its model."""
    measured = {"snr_db": record.snr_db, "verdict": record.verdict.value if record.verdict else None}
    return {name: value for name, value in measured.items() if value is not None}


def not_completed(record: JobRecord) -> ArtifactNotReady:
    return ArtifactNotReady(
        f"Job {record.job_id} is {record.status}, and not {Status.COMPLETED}.",
        hint="A model is made of a job whose three stages have succeeded.",
    )
