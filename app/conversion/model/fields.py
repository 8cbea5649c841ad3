"""The record as the fields of a Redis hash, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from app.conversion.model.origin import model_origin, sweep_of
from app.conversion.model.record import (
    NOT_YET,
    STEPS,
    Artifact,
    JobError,
    JobRecord,
    Stage,
    StageRecord,
    StageState,
    Status,
)
from app.conversion.options import Options
from app.kit.text import json_codec

ARTIFACT = "artifact:"
_EMPTY = ("{}", "[]")
_STATUSES = {status.value: status for status in Status}
_STAGES = {stage.value: stage for stage in Stage}
_STATES = {state.value: state for state in StageState}
"""Members by value: a call of the class takes several times as long."""
_TEXT_FIELDS = ("job_id", "created_at", "updated_at", "owner", "name", "claim")


def to_fields(record: JobRecord) -> dict[str, str]:
    """The record as flat text fields: stages are `<step>.<field>`, artifacts `artifact:<name>`, the rest that has parts
    is JSON."""
    fields = {name: str(getattr(record, name)) for name in _TEXT_FIELDS}
    fields |= {
        "status": record.status,
        "stage": record.stage,
        "progress": str(record.progress),
        "finished_at": record.finished_at or "",
        "output": json_codec.encode(record.output).decode(),
        "error": json.dumps(asdict(record.error)) if record.error else "",
        "tags": json.dumps(record.tags) if record.tags else "[]",
        "options": record.options.model_dump_json(exclude_defaults=True),
        "intake": json.dumps(record.intake) if record.intake else "{}",
        "origin": record.origin,
    }
    if record.forecast_s is not None:
        fields["forecast_s"] = f"{record.forecast_s:.3f}"
    if record.sweep_id:
        fields["sweep_id"] = record.sweep_id
    if record.no_cache:
        fields["no_cache"] = "1"
    if record.notes or record.keep:
        fields |= edit_fields({name: value for name in ("notes", "keep") if (value := getattr(record, name))})
    for step, stage in record.stages.items():
        if stage.state is StageState.WAITING:
            fields[f"{step}.state"] = stage.state
        else:
            fields |= {f"{step}.{name}": text for name, text in _write_stage(stage).items() if text}
    return fields | artifact_fields(record.artifacts)


def from_fields(fields: dict[str, str]) -> JobRecord:
    """Inverse of to_fields."""
    error = fields.get("error")
    origin = fields.get("origin", "")  # which older records do not have
    return JobRecord(
        **{name: fields[name] for name in _TEXT_FIELDS},
        finished_at=fields.get("finished_at") or None,
        status=_STATUSES[fields["status"]],
        stage=_STAGES[fields["stage"]],
        output=_parse_parts(fields["output"]),
        error=JobError(**json.loads(error)) if error else None,
        tags=tuple(_parse_parts(fields["tags"])),
        options=_parse_options(fields["options"]),
        stages={step: _read_stage(fields, step) for step in STEPS},
        artifacts={
            name.removeprefix(ARTIFACT): Artifact(**json.loads(text))
            for name, text in fields.items()
            if name.startswith(ARTIFACT)
        },
        intake=_parse_parts(fields["intake"]),
        origin=model_origin(origin),
        sweep_id=fields.get("sweep_id") or sweep_of(origin),
        forecast_s=float(fields["forecast_s"]) if "forecast_s" in fields else None,
        notes=fields.get("notes", ""),
        keep=fields.get("keep") == "1",
        no_cache=fields.get("no_cache") == "1",
    )


def edit_fields(values: Mapping[str, Any]) -> dict[str, str]:
    """What its user may change at any time.

    Args:
        values: name, tags, notes, keep.
    """
    texts: dict[str, Callable[[Any], str]] = {"tags": json.dumps, "keep": lambda is_kept: "1" if is_kept else ""}
    return {name: texts.get(name, str)(value) for name, value in values.items()}


@lru_cache(maxsize=256)
def _parse_options(text: str) -> Options:
    """Jobs have much the same options, and these cannot be changed."""
    return Options.model_validate_json(text)


def _parse_parts(text: str | None) -> Any:
    """Of JSON text; most of them are empty."""
    return json_codec.decode(text) if text and text not in _EMPTY else {}


def _write_stage(stage: StageRecord) -> dict[str, str]:
    return {
        "state": stage.state,
        "progress": str(stage.progress) if stage.progress else "",
        "message": stage.message,
        "queued_at": stage.queued_at or "",
        "started_at": stage.started_at or "",
        "finished_at": stage.finished_at or "",
        "worker": stage.worker or "",
        "summary": json.dumps(stage.summary) if stage.summary else "",
        "versions": json.dumps(stage.versions) if stage.versions else "",
        **reuse_fields(stage.reused_from, stage.saved_s),
    }


def reuse_fields(reused_from: str | None, saved_s: float | None) -> dict[str, str]:
    """Of a stage that another job had done; else none."""
    return {"reused_from": reused_from, "saved_s": f"{saved_s or 0.0:.3f}"} if reused_from else {}


def _read_stage(fields: dict[str, str], step: str) -> StageRecord:
    state = _STATES[fields[f"{step}.state"]]
    if state is StageState.WAITING:
        return NOT_YET
    text = fields.get
    saved_s = text(f"{step}.saved_s")
    return StageRecord(
        state=state,
        progress=int(text(f"{step}.progress") or 0),
        message=text(f"{step}.message", ""),
        queued_at=text(f"{step}.queued_at") or None,
        started_at=text(f"{step}.started_at") or None,
        finished_at=text(f"{step}.finished_at") or None,
        worker=text(f"{step}.worker") or None,
        summary=_parse_parts(text(f"{step}.summary")),
        versions=_parse_parts(text(f"{step}.versions")),
        reused_from=text(f"{step}.reused_from") or None,
        saved_s=float(saved_s) if saved_s else None,
    )


def artifact_fields(artifacts: dict[str, Artifact]) -> dict[str, str]:
    return {ARTIFACT + name: json.dumps(asdict(artifact)) for name, artifact in artifacts.items()}
