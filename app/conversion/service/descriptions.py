"""Descriptions of finished jobs in the object store, beside their artifacts: what makes a job one of the archive.

A store puts an object whole or not at all, and the description is written last: so is the job.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from app.conversion import object_keys
from app.conversion.model.record import Artifact, JobError, JobRecord, Stage, StageRecord, StageState, Status, to_json
from app.conversion.options import Options
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.objects.content import read_content
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import read_json

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ArchivedJob:
    record: JobRecord
    """As it was at its end."""
    is_kept: bool
    """It stays however old it grows."""


class Descriptions:
    def __init__(self, objects: ObjectStore) -> None:
        self.objects = objects

    def write(self, record: JobRecord) -> None:
        """Adds a finished job to the archive, or updates its description."""
        self.objects.put(object_keys.description(record.job_id), [to_bytes(record)], content_type="application/json")

    def remove(self, job_id: str) -> None:
        """Removes the job from the archive; its files stay."""
        self.objects.delete(object_keys.description(job_id))

    def read(self, job_id: str) -> ArchivedJob | None:
        """None: the job is not in the archive, or its description cannot be read (the log has the reason)."""
        try:
            text = read_content(self.objects, object_keys.description(job_id))
        except ObjectMissing:
            return None
        try:
            record = from_bytes(text)
        except NoDescription as error:
            logger.warning("Job %s is left out of the archive: %s", job_id, error, extra={"job_id": job_id})
            return None
        if record.job_id != job_id:
            logger.warning("Job %s is left out of the archive: it describes job %s.", job_id, record.job_id)
            return None
        is_kept = self.is_kept(job_id)
        return ArchivedJob(replace(record, keep=is_kept), is_kept)

    def keep(self, job_id: str, *, is_kept: bool) -> None:
        if is_kept:
            self.objects.put(object_keys.kept(job_id), [])
        else:
            self.objects.delete(object_keys.kept(job_id))

    def is_kept(self, job_id: str) -> bool:
        with suppress(ObjectMissing):
            self.objects.info(object_keys.kept(job_id))
            return True
        return False

    def is_owned(self, job_id: str, owner: str) -> bool:
        """Whether the mark of its owner exists. A deletion removes it first, a reset leaves it."""
        with suppress(ObjectMissing):
            self.objects.info(object_keys.owned(owner, job_id))
            return True
        return False

    def ids(self) -> Iterator[str]:
        """The ids of all jobs in the archive. Lists all of jobs/."""
        for info in self.objects.list(object_keys.JOBS):
            _, job_id, name = info.key.split("/", 2)
            if name == object_keys.DESCRIPTION:
                yield job_id


FORMAT = "modelmill-job/1"
T = TypeVar("T")


class NoDescription(ValueError):
    """These bytes do not describe a job, or come from an unknown release."""


def to_bytes(record: JobRecord) -> bytes:
    """The record in job.json: as in the API, with the name of its format."""
    return json.dumps({"format": FORMAT, "job": to_json(record)}, ensure_ascii=False, sort_keys=True).encode()


def from_bytes(data: bytes) -> JobRecord:
    """Inverse of to_bytes. Additions of newer releases are ignored.

    Raises:
        NoDescription: It is truncated, has another format, or has options that this release does not know.
    """
    try:
        document = read_json(data)
        if document["format"] != FORMAT:
            raise NoDescription(f"the format {document['format']!r} is not known here")
        return _read_record(document["job"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoDescription(f"this is not the description of a job: {error}") from error


def _read_record(data: JsonObject) -> JobRecord:
    made: JsonObject = {
        "status": Status(data["status"]),
        "stage": Stage(data["stage"]),
        "options": Options.model_validate(data["options"]),
        "error": _select_known(JobError, data["error"]) if data.get("error") else None,
        "tags": tuple(data.get("tags", ())),
        "stages": {stage.step: _read_stage(data["stages"][stage.step]) for stage in Stage},
        "artifacts": {name: _select_known(Artifact, artifact) for name, artifact in data["artifacts"].items()},
    }
    return _select_known(JobRecord, {**data, **made})


def _read_stage(data: JsonObject) -> StageRecord:
    return _select_known(StageRecord, {**data, "state": StageState(data["state"])})


def _select_known(kind: type[T], data: JsonObject) -> T:
    """Selects the fields that this release has."""
    return kind(**{field.name: data[field.name] for field in fields(kind) if field.name in data})  # type: ignore[arg-type]  # any data class
