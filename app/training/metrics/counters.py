"""Counters and timings of the scheduling process."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

from app.kit.observability.metrics import SHARED
from app.training.model import FailureKind

SUCCEEDED = "SUCCEEDED"
ATTEMPTS_ENDED = Counter(
    "modelmill_training_attempts_ended",
    "Attempts that ended, by why they failed or that they succeeded.",
    ["result"],
    registry=SHARED,
)
WAIT_SECONDS = Histogram(
    "modelmill_training_wait_seconds",
    "Time from joining the line to leaving it for Ray.",
    registry=SHARED,
    buckets=(1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 259200, 604800),
)
TICK_SECONDS = Histogram(
    "modelmill_training_tick_duration_seconds",
    "Time that one look of the scheduler at the cluster and the line took.",
    registry=SHARED,
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)


def count_end(kind: FailureKind | None) -> None:
    """An attempt has ended. None: it succeeded."""
    ATTEMPTS_ENDED.labels(kind.value if kind else SUCCEEDED).inc()
