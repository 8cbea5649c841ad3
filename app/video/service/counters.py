"""Counters of what happens in the processes that plan and take reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import Counter, Histogram

from app.kit.observability.metrics import SHARED

DECISIONS = Counter(
    "modelmill_video_decisions",
    "Plans that policies were asked for, by policy and what came of it.",
    ["policy", "outcome"],
    registry=SHARED,
)
DECISION_SECONDS = Histogram(
    "modelmill_video_decision_duration_seconds",
    "Time that a policy took.",
    registry=SHARED,
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
)
FRAMES = Counter(
    "modelmill_video_frames",
    "Frames of video jobs that were processed or tracked, as their runners reported them.",
    ["way"],
    registry=SHARED,
)
LATE = Counter(
    "modelmill_video_violations",
    "Reported frames that took longer than their job's constraint allows.",
    registry=SHARED,
)
ENDED = Counter("modelmill_video_jobs_ended", "Video jobs that ended, by how.", ["ending"], registry=SHARED)


def count_result(result: Mapping[str, Any], hi: float) -> None:
    """hi: the longest delay that the job's constraint allows, seconds."""
    if result.get("tracked"):
        FRAMES.labels("tracked").inc()
        return
    FRAMES.labels("processed").inc()
    e2e = result.get("e2e")
    if isinstance(e2e, int | float) and e2e > hi:
        LATE.inc()
