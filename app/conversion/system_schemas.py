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
    """When it took its job up, or came to life."""
    job_id: str
    """Empty when idle, or when the job is another user's."""
    progress: int | None
    toolchains: tuple[str, ...]


class QueueAnswer(OfView):
    queue: str
    waiting: int
    oldest_s: float | None
    """How long the first waiting job waits already."""
    busy: int
    workers: tuple[WorkerAnswer, ...]
    command: str
    """What an operator runs to have one more worker on this queue."""


class HealthAnswer(OfView):
    name: str
    detail: str
    is_up: bool
    latency_ms: float | None
    problem: str


class ForecastsAnswer(OfView):
    jobs: int
    """How many finished jobs had a forecast."""
    off_by: float
    """Three of four of their forecasts were wrong by this share of the time that the job took, or less."""


class PredictionsAnswer(OfView):
    jobs: int
    """How many finished jobs applied an action that promised something."""
    off_by_db: float
    """Three of four of the promises were wrong by so many dB of SNR, or less."""


class CacheAnswer(OfView):
    size_bytes: int
    """At its last sweep."""
    max_bytes: int
    entries: int
    """Stages in it, likewise."""
    hits: int
    """Stages that were found in it since Redis started; misses likewise."""
    misses: int
    saved_s: float
    """How long those that were found had taken, in seconds."""
    is_shared: bool
    """By all users; else each has a part of their own."""


class SystemAnswer(OfView):
    is_ready: bool
    """Can a conversion submitted now come to its end?"""
    queues: tuple[QueueAnswer, ...]
    """One per stage, then the scheduler's (done); empty while Redis is away."""
    redis: HealthAnswer
    store: HealthAnswer
    toolchains: tuple[str, ...]
    versions: dict[str, str]
    forecasts: dict[str, ForecastsAnswer]
    """How right the expected end of jobs was, by toolchain; without toolchains that have too few jobs."""
    predictions: dict[str, PredictionsAnswer]
    """How right the promises of applied actions were, likewise."""
    cache: CacheAnswer | None
    """Of stages' outputs; null where it is off."""

    @field_validator("versions", mode="before")
    @classmethod
    def _from_pairs(cls, value: Any) -> dict[str, str]:
        return dict(value)
