"""Counters and timings of conversion; `collector` measures the rest during a scrape."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from app.kit.observability.metrics import SHARED

FAILED = "FAILED"
STAGE_SECONDS = Histogram(
    "modelmill_stage_duration_seconds",
    "Time from the claim of a stage to its outcome, transfers included.",
    ["stage", "toolchain", "result"],
    registry=SHARED,
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400),
)
STAGE_FAILURES = Counter(
    "modelmill_stage_failures", "Jobs that failed, by stage and cause.", ["stage", "code"], registry=SHARED
)
JOBS_SUBMITTED = Counter("modelmill_jobs_submitted", "Jobs that were taken in.", registry=SHARED)
JOBS_FINISHED = Counter(
    "modelmill_jobs_finished", "Jobs that ended, by their last status.", ["status"], registry=SHARED
)


def count_end(step: str, status: str, code: str) -> None:
    """Count a job that has ended in this stage.

    Args:
        code: Why it failed; unused when the job completed.
    """
    JOBS_FINISHED.labels(status).inc()
    if status == FAILED:
        STAGE_FAILURES.labels(step, code).inc()
