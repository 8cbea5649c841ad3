"""Reference pictures of earlier jobs, each set once, to be picked for another job."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.conversion import object_keys
from app.conversion.model import JobRecord, Stage
from app.conversion.model.saturation import SaturationCurve
from app.conversion.service.jobs import Jobs
from app.conversion.store import JobFilter

JOBS_READ = 100
SETS_AT_MOST = 6


@dataclass(frozen=True)
class CalibrationSet:
    key: str
    """Of the input of the newest job that used it."""
    name: str
    """Of that job, or its id."""
    samples: int
    created_at: str
    """When that job was submitted."""
    jobs: int
    """How many of the newest jobs used it."""
    saturation: SaturationCurve | None = None
    """Of the newest of these jobs that measured how many of the set are enough."""


def calibration_sets(jobs: Jobs, user: str) -> list[CalibrationSet]:
    """The sets of the user's newest jobs, the last used first."""
    records, _ = jobs.page(JobFilter(), user, limit=JOBS_READ, cursor=None, max_read=JOBS_READ)
    by_digest: dict[str, CalibrationSet] = {}
    for record in records:
        samples = record.artifacts.get(object_keys.IMAGES)
        if samples is None:
            continue
        known, own = by_digest.get(samples.sha256), _of(record)
        if known is not None:
            own = replace(known, jobs=known.jobs + 1, saturation=known.saturation or own.saturation)
        by_digest[samples.sha256] = own
    return list(by_digest.values())[:SETS_AT_MOST]


def _of(record: JobRecord) -> CalibrationSet:
    key = object_keys.input_(record.job_id, object_keys.IMAGES)
    samples = int(record.intake.get("samples", {}).get("samples", 0))
    curve = record.stages[Stage.BIE.step].summary.get("saturation")
    saturation = SaturationCurve.from_json(curve) if curve else None
    return CalibrationSet(key, record.name or record.job_id, samples, record.created_at, 1, saturation)
