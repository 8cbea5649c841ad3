"""How the plan in force does, and how another one would, for policies that go by steps. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.video.model.plan import VideoConf
from app.video.model.report import PlanResult
from app.video.scheduling.contract import DagInfo, ResourceInfo
from app.video.scheduling.placement import Place, stages_of
from app.video.scheduling.predictor import predict


def observed_delay(dag: DagInfo, result: PlanResult | None) -> float | None:
    """Of the slower frames, from capture to result, seconds: p95, else the median, else the stages' delays along the
    slowest way. None when nothing has been measured."""
    if not result or result.get("frames") == 0:
        return None
    for known in (result.get("e2e_p95"), result.get("e2e_p50")):
        if known is not None:
            return float(known)
    delays = result.get("delay")
    return slowest_way(dag, delays) if delays else None


def slowest_way(dag: DagInfo, delays: Mapping[str, float]) -> float:
    """Along the DAG; a stage without a figure counts nothing."""
    ended: dict[str, float] = {}
    for stage in stages_of(dag):
        began = max((ended.get(before, 0.0) for before in dag["stages"][stage]["before"]), default=0.0)
        ended[stage] = began + float(delays.get(stage) or 0.0)
    return max(ended.values(), default=0.0)


def foreseen_delay(
    dag: DagInfo, conf: VideoConf, places: Mapping[str, Place], resource_info: ResourceInfo, state: Mapping[str, Any]
) -> float | None:
    """Seconds; None where it would be a guess."""
    profile = state.get("profile")
    if not profile:
        return None
    foreseen = predict(dag=dag, video_conf=conf, flow_mapping=places, resource_info=resource_info, profile=profile)
    return foreseen.delay_s if foreseen.is_measured else None


def fps_steps(source_fps: float | None) -> list[float]:
    """Frame rates worth trying, lowest first: none above the source's own."""
    steps = [5.0, 10.0, 15.0, 24.0, 30.0, 60.0]
    if not source_fps or source_fps <= 0:
        return steps[:5]
    return [step for step in steps if step <= source_fps + 0.5] or [min(source_fps, steps[0])]
