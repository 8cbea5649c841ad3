"""The JSON of GET /system. Extra keys are allowed; those named here hold."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import field_validator

from app.conversion.schemas import OfView


class WorkerAnswer(OfView):
    name: str
    host: str
    pid: int
    is_busy: bool
    since: datetime
    """When it took its job, or when it started."""
    job_id: str
    """Id of its job; empty if it is idle, or if the job belongs to another user."""
    progress: int | None
    toolchains: tuple[str, ...]


class QueueAnswer(OfView):
    queue: str
    waiting: int
    oldest_s: float | None
    """Seconds that the first waiting job has waited."""
    busy: int
    workers: tuple[WorkerAnswer, ...]
    command: str
    """Command with which an operator starts another worker of this queue."""


class HealthAnswer(OfView):
    name: str
    detail: str
    is_up: bool
    latency_ms: float | None
    problem: str


class ForecastsAnswer(OfView):
    jobs: int
    """Number of finished jobs with a forecast."""
    off_by: float
    """Error of the forecasts, as a share of the duration of the job; three of four are at most this far off."""


class PredictionsAnswer(OfView):
    jobs: int
    """Number of finished jobs that applied an action with a predicted gain."""
    off_by_db: float
    """Error of the predicted gains in dB of SNR; three of four are at most this far off."""


class CacheAnswer(OfView):
    swept_at: str | None
    """Time of the last sweep, which measured its size and number of stages; null: not since Redis started."""
    size_bytes: int
    """Size in bytes at the last sweep of the cache."""
    max_bytes: int
    entries: int
    """Number of stages at the last sweep of the cache."""
    hits: int
    """Number of stages that were found in the cache since Redis started; misses: those that were not."""
    misses: int
    saved_s: float
    """Seconds that the found stages had taken originally."""
    is_shared: bool
    """Whether all users share the cache; otherwise each user has a separate part."""


class SystemAnswer(OfView):
    is_ready: bool
    """Whether a conversion that is submitted now can be completed."""
    queues: tuple[QueueAnswer, ...]
    """One queue per stage, and that of the scheduler (done); empty while Redis does not answer."""
    redis: HealthAnswer
    store: HealthAnswer
    toolchains: tuple[str, ...]
    versions: dict[str, str]
    forecasts: dict[str, ForecastsAnswer]
    """Accuracy of the forecasts of jobs, by toolchain; without toolchains that have too few jobs."""
    predictions: dict[str, PredictionsAnswer]
    """Accuracy of the predicted gains of applied actions, by toolchain."""
    cache: CacheAnswer | None
    """The cache of outputs of stages; null if it is off."""

    @field_validator("versions", mode="before")
    @classmethod
    def _from_pairs(cls, value: Any) -> dict[str, str]:
        return dict(value)
