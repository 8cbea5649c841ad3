"""Conversion jobs as they are once they have completed, written straight into the store: nobody has to work on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from app.bootstrap.container import Container
from app.conversion import model, object_keys
from app.conversion.model import Artifact, JobRecord, Stage, Status
from app.conversion.options import Options
from app.kit.clock import to_text

BEGAN = datetime(2026, 11, 20, tzinfo=UTC)
FACTS = {
    "inputs": [{"name": "x", "shape": [1, 3, 16, 16], "dtype": "float32"}],
    "outputs": [{"name": "y", "shape": [1, 4], "dtype": "float32"}],
    "parameters": 1234,
    "macs": None,
    "nodes": 7,
}


def finished_job(
    container: Container,
    owner: str,
    name: str = "faces",
    *,
    minute: int = 0,
    status: Status = Status.COMPLETED,
    options: Options | None = None,
    without: str = "",
    mark: str = "",
    files: Mapping[str, bytes] = {},
) -> JobRecord:
    """minute: later jobs are newer. without: an artifact that it lacks. mark: jobs of the same mark have the same
    files. files: by name, what is really to be in one."""
    job_id, moment = str(uuid4()), BEGAN + timedelta(minutes=minute)
    made = {}
    for stage in Stage:
        if without != f"out.{stage.step}":
            content = files.get(f"out.{stage.step}", f"{stage.step} {mark or job_id}".encode())
            stored = container.objects.put(object_keys.result(job_id, stage), [content])
            made[f"out.{stage.step}"] = Artifact(stored.key, stored.size_bytes, stored.sha256)
    begun = model.submitted(
        job_id,
        now=to_text(moment),
        owner=owner,
        name=name,
        tags=(),
        options=options or Options(),
        inputs={},
        intake={"model": FACTS},
    )
    record = replace(begun, status=status, stage=Stage.NEF, artifacts=made, finished_at=to_text(moment))
    container.store.create(record, score=moment.timestamp())
    return record
