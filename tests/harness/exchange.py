"""A finished job with reports, as exchange and pack take it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from app.bootstrap.container import Container
from app.conversion import object_keys
from app.conversion.model import Artifact, JobRecord, Stage, StageState, Status
from tests.harness.conversion_jobs import finished_job

SUMMARY = {"snr_db": 31.5, "passed": True, "samples": 10}
NEF = b"nef of the test"


def reported_job(
    container: Container, owner: str, name: str = "detector", *, is_good: bool = True, origin: str = ""
) -> JobRecord:
    """With bie.json, nef.json and a summary of BIE."""
    status = Status.COMPLETED if is_good else Status.FAILED
    record = finished_job(container, owner, name, status=status, files={"out.nef": NEF})
    artifacts = dict(record.artifacts)
    for stage, report in ((Stage.BIE, {"verdict": SUMMARY}), (Stage.NEF, {"size_bytes": len(NEF)})):
        artifacts[f"{stage.step}.json"] = _put(container, object_keys.report(record.job_id, stage), report)
    bie = replace(record.stages["bie"], state=StageState.DONE, summary=SUMMARY, versions={"onnxruntime": "1.31"})
    whole = replace(record, origin=origin, artifacts=artifacts, stages={**record.stages, "bie": bie})
    container.store.delete(record.job_id)
    container.store.create(whole, score=1.0)
    return whole


def _put(container: Container, key: str, report: dict[str, Any]) -> Artifact:
    stored = container.objects.put(key, [json.dumps(report).encode()])
    return Artifact(stored.key, stored.size_bytes, stored.sha256)
