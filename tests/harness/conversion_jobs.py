"""Conversion jobs as they are once they have completed, written straight into the store: nobody has to work on them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from app.bootstrap.container import Container
from app.conversion import model, object_keys
from app.conversion.model import Artifact, JobError, JobRecord, Stage, StageRecord, StageState, Status
from app.conversion.options import Options
from app.conversion.service.estimates import FinishedJob
from app.kit.clock import to_text

BEGAN = datetime(2026, 11, 20, tzinfo=UTC)
NETWORKS = ("yunet", "yolox", "rfb", "slim", "mobilenet", "fastestdet", "headpose", "digits")
PURPOSES = ("nightly", "release", "trial", "customer", "bench")
TAGS = ("nightly", "faces", "street", "release", "two words")
METHODS = ("minmax", "percentile", "entropy")
FACTS = {
    "inputs": [{"name": "x", "shape": [1, 3, 16, 16], "dtype": "float32"}],
    "outputs": [{"name": "y", "shape": [1, 4], "dtype": "float32"}],
    "parameters": 1234,
    "macs": None,
    "nodes": 7,
}


def past_job(onnx: float, bie: float, nef: float) -> FinishedJob:
    """Seconds of its stages, by which others are forecast."""
    return FinishedJob("host", {Stage.ONNX: onnx, Stage.BIE: bie, Stage.NEF: nef})


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


def jobs_of_a_year(count: int, owner: str, *, until: datetime) -> Iterator[JobRecord]:
    """As its users name and tag them, nine of ten converted, with what was measured; the same ones each time.

    Args:
        until: When the last of them began.
    """
    chance = random.Random(1)
    for number in range(count):
        created = until - timedelta(days=365) * (1 - number / count)
        network = chance.choice(NETWORKS)
        begun = model.submitted(
            str(UUID(int=chance.getrandbits(128), version=4)),
            now=to_text(created),
            owner=owner,
            name=f"{network} {chance.choice(PURPOSES)} run {number}",
            tags=tuple(chance.sample(TAGS, chance.randint(0, 2))),
            options=Options.model_validate({"quantization": {"method": chance.choice(METHODS)}}),
            inputs={},
            intake={"model_name": f"{network}_{chance.randint(1, 40)}.onnx"},
        )
        finished_at = to_text(created + timedelta(seconds=chance.uniform(2, 300)))
        snr_db = chance.gauss(28, 9)
        summary = {
            "snr_db": snr_db,
            "passed": snr_db >= 20,
            "size_bytes": chance.randint(100_000, 9_000_000),
            "latency_ms": chance.uniform(1, 80),
        }
        if chance.random() < 0.1:
            error = JobError("nef", "no", code="STAGE_FAILED")
            yield replace(begun, status=Status.FAILED, error=error, finished_at=finished_at)
        else:
            stages = {**begun.stages, Stage.BIE.step: StageRecord(state=StageState.DONE, summary=summary)}
            yield replace(begun, status=Status.COMPLETED, stage=Stage.NEF, stages=stages, finished_at=finished_at)
