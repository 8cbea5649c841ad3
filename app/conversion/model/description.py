"""A finished job as the file beside its artifacts says it, job.json: enough to show, search and repeat it without its
record. Pure."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, TypeVar

from app.conversion.model.record import (
    Artifact,
    JobError,
    JobRecord,
    Stage,
    StageRecord,
    StageState,
    Status,
    to_json,
)
from app.conversion.options import Options

FORMAT = "modelmill-job/1"
T = TypeVar("T")


class NoDescription(ValueError):
    """These bytes do not describe a job, or are of a release that this one does not know."""


def to_bytes(record: JobRecord) -> bytes:
    """The record as job.json has it: as the API shows it, under the name of its format."""
    return json.dumps({"format": FORMAT, "job": to_json(record)}, ensure_ascii=False, sort_keys=True).encode()


def from_bytes(data: bytes) -> JobRecord:
    """Inverse of to_bytes. What a newer release has added is left out.

    Raises:
        NoDescription: It is cut off, of another format, or has options that this release does not know.
    """
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise NoDescription(f"the format {document['format']!r} is not known here")
        return _record(document["job"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoDescription(f"this is not the description of a job: {error}") from error


def _record(data: dict[str, Any]) -> JobRecord:
    made: dict[str, Any] = {
        "status": Status(data["status"]),
        "stage": Stage(data["stage"]),
        "options": Options.model_validate(data["options"]),
        "error": _known(JobError, data["error"]) if data.get("error") else None,
        "tags": tuple(data.get("tags", ())),
        "stages": {stage.step: _stage(data["stages"][stage.step]) for stage in Stage},
        "artifacts": {name: _known(Artifact, artifact) for name, artifact in data["artifacts"].items()},
    }
    return _known(JobRecord, {**data, **made})


def _stage(data: dict[str, Any]) -> StageRecord:
    return _known(StageRecord, {**data, "state": StageState(data["state"])})


def _known(kind: type[T], data: dict[str, Any]) -> T:
    """Of these fields those that this release has."""
    return kind(**{field.name: data[field.name] for field in fields(kind) if field.name in data})  # type: ignore[arg-type]
