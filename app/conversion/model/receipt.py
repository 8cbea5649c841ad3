"""The inputs and versions of a finished job, as an in-toto statement with SLSA provenance. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.conversion.model.record import Artifact, JobRecord, Stage, StageRecord
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import read_json

NAME = "receipt.json"
"""The artifact's."""
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:modelmill:conversion:v1"
INPUTS = ("model.onnx", "quant.zip")
COMMAND = ("modelmill", "convert", *INPUTS, "--options", "options.json")
"""The command line that repeats a conversion, with its options in that file."""


class NoStatement(ValueError):
    """These bytes are no receipt of a conversion."""


@dataclass(frozen=True)
class Builder:
    """Who converted."""

    builder_id: str
    """A URI."""
    version: str
    """The release of this software."""
    public_key: str
    """PEM of the key that signs the receipt."""


@dataclass(frozen=True)
class Statement:
    """A receipt as its reader needs it."""

    subjects: dict[str, str]
    """Output, report or log → SHA-256."""
    inputs: dict[str, str]
    job_id: str
    finished_at: str
    public_key: str
    """PEM, as the receipt says: whose it is, it cannot prove."""


def statement(record: JobRecord, builder: Builder) -> JsonObject:
    """Of a job that has completed. Who owns it and what it was called is not in it: it is handed on with the files."""
    made = {name: artifact for name, artifact in record.artifacts.items() if name not in (*INPUTS, NAME)}
    return {
        "_type": STATEMENT_TYPE,
        "subject": [_describe_artifact(name, artifact) for name, artifact in sorted(made.items())],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"options": record.options.model_dump(mode="json"), "command": COMMAND},
                "internalParameters": {"stages": {stage.step: _describe_stage(record, stage) for stage in Stage}},
                "resolvedDependencies": [
                    _describe_artifact(name, record.artifacts[name]) for name in INPUTS if name in record.artifacts
                ],
            },
            "runDetails": {
                "builder": {"id": builder.builder_id, "version": {"modelmill": builder.version}},
                "metadata": {
                    "invocationId": record.job_id,
                    "startedOn": record.created_at,
                    "finishedOn": record.finished_at,
                },
            },
            "modelmill_parents": _list_parents(record),
            "modelmill_public_key": builder.public_key,
        },
    }


def read_statement(payload: bytes) -> Statement:
    """Reads the payload of a receipt.

    Raises:
        NoStatement: It is something else.
    """
    try:
        document = read_json(payload)
        predicate = document["predicate"]
        if (document["_type"], predicate["buildDefinition"]["buildType"]) != (STATEMENT_TYPE, BUILD_TYPE):
            raise NoStatement("it is a statement about something else than a conversion")
        metadata = predicate["runDetails"]["metadata"]
        return Statement(
            _collect_digests(document["subject"]),
            _collect_digests(predicate["buildDefinition"]["resolvedDependencies"]),
            str(metadata["invocationId"]),
            str(metadata["finishedOn"]),
            str(predicate["modelmill_public_key"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, NoStatement):
            raise
        raise NoStatement("it is no statement about a conversion (in-toto)") from error


def _list_parents(record: JobRecord) -> list[str]:
    return [*([record.origin] if record.origin else []), *([f"sweep:{record.sweep_id}"] if record.sweep_id else [])]


def _describe_stage(record: JobRecord, stage: Stage) -> JsonObject:
    """What it read and made, how well, by which versions and when."""
    own = record.stages[stage.step]
    return {
        "toolchain": record.options.toolchain.value,
        "versions": own.versions,
        "materials": _describe_artifacts(record, _list_materials(stage)),
        "products": _describe_artifacts(record, (f"out.{stage.step}", f"{stage.step}.json")),
        "metrics": own.summary,
        **_read_times(own),
    }


def _read_times(own: StageRecord) -> JsonObject:
    """A stage that another job had done says which: that job's times are in its own receipt."""
    reused = {"reused_from": own.reused_from} if own.reused_from else {}
    return {"started_on": own.started_at, "finished_on": own.finished_at, **reused}


def _list_materials(stage: Stage) -> tuple[str, ...]:
    before = stage.before
    model = f"out.{before.step}" if before else INPUTS[0]
    return (model,) if stage is Stage.NEF else (model, INPUTS[1])


def _describe_artifacts(record: JobRecord, names: Iterable[str]) -> list[JsonObject]:
    return [_describe_artifact(name, record.artifacts[name]) for name in names if name in record.artifacts]


def _describe_artifact(name: str, artifact: Artifact) -> JsonObject:
    return {"name": name, "digest": {"sha256": artifact.sha256}}


def _collect_digests(resources: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {str(resource["name"]): str(resource["digest"]["sha256"]) for resource in resources}
