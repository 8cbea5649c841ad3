"""The performance of the current plan, and estimates for others, for step-by-step policies. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.video.model.plan import VideoConf
from app.video.model.report import PlanResult
from app.video.scheduling.contract import DagInfo, ResourceInfo
from app.video.scheduling.placement import Place, stages_of
from app.video.scheduling.predictor import predict
from app.video.scheduling.source_limits import ROUNDING_FPS


def measure_delay_s(dag: DagInfo, result: PlanResult | None) -> float | None:
    """Seconds from capture to result of the slower frames: their p95, else the median, else the sum of the stages'
    delays along the critical path. None when nothing has been measured."""
    if not result or result.get("frames") == 0:
        return None
    for measured in (result.get("e2e_p95"), result.get("e2e_p50")):
        if measured is not None:
            return float(measured)
    delays = result.get("delay")
    return critical_path_s(dag, delays) if delays else None


def critical_path_s(dag: DagInfo, delays: Mapping[str, float]) -> float:
    """Seconds along the slowest path through the DAG.

    Args:
        delays: stage → seconds; a stage that is missing counts as 0.
    """
    ended: dict[str, float] = {}
    for stage in stages_of(dag):
        began = max((ended.get(before, 0.0) for before in dag["stages"][stage]["before"]), default=0.0)
        ended[stage] = began + float(delays.get(stage) or 0.0)
    return max(ended.values(), default=0.0)


def predict_delay_s(
    dag: DagInfo, conf: VideoConf, places: Mapping[str, Place], resource_info: ResourceInfo, state: Mapping[str, Any]
) -> float | None:
    """Predicts how long a frame takes with a plan.

    Args:
        places: of each stage, as in flow_mapping.
        state: of the job; its "profile" has the measurements.

    Returns:
        The predicted seconds; None if the profile does not cover the plan.
    """
    profile = state.get("profile")
    if not profile:
        return None
    prediction = predict(dag=dag, video_conf=conf, flow_mapping=places, resource_info=resource_info, profile=profile)
    return prediction.delay_s if prediction.is_measured else None


def fps_steps(source_fps: float | None) -> list[float]:
    """Frame rates worth trying, frames per second, lowest first: none above the source's own."""
    steps = [5.0, 10.0, 15.0, 24.0, 30.0, 60.0]
    if not source_fps or source_fps <= 0:
        return steps[:5]
    return [step for step in steps if step <= source_fps + ROUNDING_FPS] or [min(source_fps, steps[0])]
