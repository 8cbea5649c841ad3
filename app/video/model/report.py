"""What the runner of a job tells the web: results of frames, how the plan does, its end. JSON forms."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class PlanResult(TypedDict):
    """Means since the plan began or was last asked for; seconds. delay: stage → time from the runner's call to its
    answer, the way there and back included. Tracked and skipped frames count in none of the means."""

    delay: dict[str, float]
    iou: NotRequired[dict[str, float]]
    """stage → F1 against the golden configuration."""
    mae: NotRequired[dict[str, float]]
    """stage → mean absolute error against it, degrees."""
    server: NotRequired[dict[str, float]]
    """stage → time of computing alone."""
    queue: NotRequired[dict[str, float]]
    """stage → time of waiting for a free process of the host."""
    e2e_p50: NotRequired[float]
    e2e_p95: NotRequired[float]
    """From a frame's capture to its result."""
    fps: NotRequired[float]
    """Processed frames a second."""
    frames: NotRequired[int]
    tracked: NotRequired[int]
    skipped: NotRequired[int]
    dropped: NotRequired[int]
    """Left out because the runner was late."""
    violations: NotRequired[int]
    """Frames that took longer than the constraint's hi."""
    bytes_up: NotRequired[float]
    """To other nodes, a processed frame."""
    up_mbps: NotRequired[dict[str, float]]
    """node → as measured by sending frames there."""
    fallbacks: NotRequired[int]
    """Stage calls that were answered by the host itself, because the planned node was not to be reached."""
    plan_seq: NotRequired[int]


class PlanRequest(TypedDict):
    """POST /node/get_plan. asked: rises with each demand of a runner."""

    job_uid: str
    dag: dict[str, Any]
    last_plan_result: PlanResult | None
    user_constraint: dict[str, Any] | None
    generator_output: NotRequired[dict[str, Any]]
    """{seq, bytes, objects}: of the newest frame."""
    asked: NotRequired[int]
    why: NotRequired[str]
    """start, period, late, fallback."""


class JobReport(TypedDict):
    """POST /node/sync_job_result, at most once a second. seq: rises with each report of a job, over restarts of the
    runner, too: one that is not greater than the last is ignored."""

    job_uid: str
    seq: int
    results: list[dict[str, Any]]
    """New since the last report: {"n_loop": n, …count…, "e2e": s, "tracked": bool}; n_loop rises over restarts."""
    plan_result: NotRequired[PlanResult]
    flags: NotRequired[list[str]]
    silent_s: NotRequired[float]
    """Since the source gave its last picture; missing while they come."""
    ending: NotRequired[str]
    reason: NotRequired[str]
    profile: NotRequired[list[dict[str, Any]]]
    """Rows of app.video.model.profile.Measurement."""
    progress: NotRequired[float]
    """0..1, of profiling."""
    note: NotRequired[str]
    """Something to put into the job's events."""
