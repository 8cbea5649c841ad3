"""The policy `aimd`: additive increase, multiplicative decrease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.video.model.plan import RESOLUTIONS, VideoConf
from app.video.model.report import PlanResult
from app.video.scheduling.contract import Answer, ConstraintInfo, DagInfo, GeneratorInfo, PolicyState, ResourceInfo
from app.video.scheduling.feedback import measure_delay_s, predict_delay_s
from app.video.scheduling.placement import CLOUD_FIRST, Place, last_places, last_plan, place_for, stages_of
from app.video.scheduling.source_limits import ROUNDING_FPS, sizes_within

LOADS: tuple[tuple[str, float], ...] = (
    ("240p", 5.0),
    ("240p", 10.0),
    ("360p", 10.0),
    ("360p", 15.0),
    ("480p", 15.0),
    ("480p", 24.0),
    ("480p", 30.0),
    ("720p", 24.0),
    ("720p", 30.0),
    ("1080p", 24.0),
    ("1080p", 30.0),
)
"""Size and frames a second, each more work than the one before."""
FIRST = ("480p", 24.0)
MARGIN = 0.2
"""Of hi: with less room than this to the limit there is no step up."""


def aimd(
    *,
    job_uid: str,
    dag: DagInfo,
    resource_info: ResourceInfo,
    last_plan_res: PlanResult | None,
    user_constraint: ConstraintInfo,
    generator_output: GeneratorInfo | None = None,
    state: PolicyState | None = None,
) -> Answer:
    """In the cloud where it is served; in time with room to spare: one step more load; late: half as many steps.

    With c the longest delay allowed and d the one seen, the error is -(c - d) in time and (d - c)² when late. state:
    `index`, the step in force.

    Arguments as of `contract.Policy`.
    """
    state = {} if state is None else state
    last = last_places(state)
    places = {stage: place_for(resource_info, stage, CLOUD_FIRST, last=last.get(stage)) for stage in stages_of(dag)}
    loads, hi = _list_loads(generator_output), user_constraint["delay"][1]
    index = _find_index(state, loads)
    if index is None:
        index = _choose_first(loads, dag, places, resource_info, hi, state)
    else:
        index = _choose_next(index, len(loads), measure_delay_s(dag, last_plan_res), hi, state)
    state["index"] = index
    return VideoConf(*loads[index]).to_json(), places


def _list_loads(generator_output: GeneratorInfo | None) -> list[tuple[str, float]]:
    """The loads that the source can give; at least the lowest."""
    source = generator_output or {}
    fps, sizes = source.get("fps") or 0.0, sizes_within(source.get("height") or 0)
    possible = [(size, rate) for size, rate in LOADS if size in sizes and (fps <= 0 or rate <= fps + ROUNDING_FPS)]
    return possible or [LOADS[0]]


def _find_index(state: Mapping[str, Any], loads: list[tuple[str, float]]) -> int | None:
    """The step in force; for a plan that another policy made, the one below it."""
    plan = last_plan(state)
    if plan is None:
        return None
    conf = VideoConf(plan["video_conf"]["resolution"], float(plan["video_conf"]["fps"]))
    if (index := state.get("index")) is not None and index < len(loads) and VideoConf(*loads[index]) == conf:
        return int(index)
    return max(
        (at for at, load in enumerate(loads) if _compute_work(load) <= _compute_work((conf.resolution, conf.fps))),
        default=0,
    )


def _compute_work(load: tuple[str, float]) -> float:
    width, height = RESOLUTIONS[load[0]]
    return width * height * load[1]


def _choose_first(
    loads: list[tuple[str, float]],
    dag: DagInfo,
    places: Mapping[str, Place],
    resource_info: ResourceInfo,
    hi: float,
    state: PolicyState,
) -> int:
    """480p, 24 a second; where the profile knows that this is too slow, the most work below it that is not."""
    index = max((at for at, load in enumerate(loads) if _compute_work(load) <= _compute_work(FIRST)), default=0)
    delay = predict_delay_s(dag, VideoConf(*loads[index]), places, resource_info, state)
    while delay is not None and delay > hi and index > 0:
        index -= 1
        delay = predict_delay_s(dag, VideoConf(*loads[index]), places, resource_info, state)
    state["reason"] = "The first plan." if delay is None else f"The first plan: {delay:.3f} s foreseen."
    return index


def _choose_next(index: int, steps: int, delay: float | None, hi: float, state: PolicyState) -> int:
    if delay is None:
        state["reason"] = "Nothing has been measured since the last plan."
        return index
    error = -(hi - delay) if delay <= hi else (delay - hi) ** 2
    summary = f"{delay:.3f} s of {hi:g} s, error {error:+.3f}"
    if error > 0:
        state["reason"] = f"{summary}: late; step {index} → {index // 2}."
        return index // 2
    if error < -MARGIN * hi and index + 1 < steps:
        state["reason"] = f"{summary}: in time; step {index} → {index + 1}."
        return index + 1
    state["reason"] = f"{summary}: no change."
    return index
