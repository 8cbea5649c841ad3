"""The reports of a job's runner to the web server: results of frames, the plan's performance, measurements, its end.
JSON forms."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired

from typing_extensions import TypedDict

from app.inference.broadcast import BroadcastState
from app.inference.model_card import ModelCard
from app.kit.text.json_form import JsonDocument
from app.kit.text.json_values import JsonObject


class PlanResult(TypedDict):
    """Means, in seconds, since the plan started or since the last request for one. Tracked and skipped frames are not
    included."""

    delay: dict[str, float]
    """stage → from the runner's call to its answer, including transport."""
    iou: NotRequired[dict[str, float]]
    """stage → F1 relative to the reference configuration."""
    mae: NotRequired[dict[str, float]]
    """stage → mean absolute error relative to it, in degrees."""
    server: NotRequired[dict[str, float]]
    """stage → computation only."""
    queue: NotRequired[dict[str, float]]
    """stage → waiting for a free process of the host."""
    e2e_p50: NotRequired[float]
    e2e_p95: NotRequired[float]
    """From a frame's capture to its result."""
    fps: NotRequired[float]
    """Processed frames per second."""
    frames: NotRequired[int]
    tracked: NotRequired[int]
    skipped: NotRequired[int]
    dropped: NotRequired[int]
    """Skipped because the runner was late."""
    still: NotRequired[int]
    """Not processed because nothing had moved: the answers of the last processed frame hold on."""
    violations: NotRequired[int]
    """Frames that took longer than the constraint's hi."""
    bytes_up: NotRequired[float]
    """Bytes to other nodes, per processed frame."""
    up_mbps: NotRequired[dict[str, float]]
    """node → Mbit/s, as measured by sending frames there."""
    fallbacks: NotRequired[int]
    """Stage calls that the host itself answered, because the planned node was unreachable."""
    plan_seq: NotRequired[int]


def taken_of(result: PlanResult) -> int:
    """Frames that were processed, or for which it was enough that nothing had moved."""
    return result.get("frames", 0) + result.get("still", 0)


def measure_taken_fps(result: PlanResult) -> float:
    """Such frames per second."""
    frames, fps = result.get("frames", 0), result.get("fps", 0.0)
    return fps * taken_of(result) / frames if frames else fps


class PlanRequest(TypedDict):
    """POST /node/get_plan."""

    job_uid: str
    dag: JsonObject
    last_plan_result: PlanResult | None
    user_constraint: JsonObject | None
    generator_output: NotRequired[JsonObject]
    """{seq, bytes, objects}: of the newest frame."""
    asked: NotRequired[int]
    """Increases with each request of a runner."""
    why: NotRequired[str]
    """start, period, late, fallback."""


class JobReport(TypedDict):
    """POST /node/sync_job_result, at most once a second."""

    job_uid: str
    seq: int
    """Increases with each report of a job, also across restarts of the runner: one that is not greater than the last is
    ignored."""
    results: list[JsonObject]
    """New since the last report; see Row. n_loop rises over restarts."""
    plan_result: NotRequired[PlanResult]
    flags: NotRequired[list[str]]
    silent_s: NotRequired[float]
    """Since the source delivered its last picture; absent while pictures arrive."""
    broadcast: NotRequired[BroadcastState]
    ending: NotRequired[str]
    reason: NotRequired[str]
    profile: NotRequired[list[JsonObject]]
    """Rows of Measurement."""
    progress: NotRequired[float]
    """0..1, of profiling."""
    note: NotRequired[str]
    """An entry for the job's events."""


def model_of(cards: Sequence[ModelCard]) -> str:
    """Identifies a variant by its files: the SHA-256 of the one, or of all their sums; empty for a stage without
    models."""
    if len(cards) <= 1:
        return cards[0].sha256 if cards else ""
    return hashlib.sha256(" ".join(card.sha256 for card in cards).encode()).hexdigest()


@dataclass(frozen=True)
class Measurement(JsonDocument):
    """One stage with one model at one size on one node."""

    node: str
    stage: str
    model_id: int
    model: str
    """See model_of."""
    resolution: str
    delay_s: float
    """Seconds of computation per frame, without transport."""
    bytes: float
    """Of the frame as JPEG."""
    quality: float
    """0..1 relative to the reference configuration: F1, or 1 - MAE / 30 degrees."""
    frames: int = 0
    """Number of measured frames."""
    at: str = ""
