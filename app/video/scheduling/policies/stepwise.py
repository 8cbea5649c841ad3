"""The policy `stepwise`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.video.model.plan import RESOLUTIONS, VideoConf
from app.video.model.report import PlanResult
from app.video.scheduling.contract import Answer, ConstraintInfo, DagInfo, GeneratorInfo, PolicyState, ResourceInfo
from app.video.scheduling.feedback import fps_steps, measure_delay_s, predict_delay_s
from app.video.scheduling.placement import (
    CLOUD_FIRST,
    HERE_FIRST,
    Place,
    is_served,
    last_places,
    last_plan,
    place_for,
    stages_of,
)
from app.video.scheduling.source_limits import sizes_within

SIZES = tuple(RESOLUTIONS)
BAND = 0.8
"""Of hi: between it, or lo where that is given, and hi nothing is changed."""
PERIODS = 2
"""So many in a row must be too slow, or too fast, before a step is taken."""
FIRST_PATIENCE, MOST_PATIENCE = 4, 64
"""Periods without a step up after one that had to be taken back; doubled each time."""


@dataclass(frozen=True)
class Step:
    """A load that is tried."""

    size: int
    """Index of SIZES."""
    fps: float
    """Frames a second."""
    moved: int
    """How many of the last stages run in the cloud."""


@dataclass(frozen=True)
class _Options:
    """What can be chosen from."""

    stages: tuple[str, ...]
    rates: tuple[float, ...]
    """Frames a second, lowest first."""
    movable: int
    """How many of the last stages the cloud serves."""
    largest: int
    """Index of SIZES."""

    def down(self, step: Step) -> Step | None:
        """Faster: a smaller picture, then fewer of them, then one more stage in the cloud."""
        if step.size > 0:
            return replace(step, size=step.size - 1)
        lower = [rate for rate in self.rates if rate < step.fps]
        if lower:
            return replace(step, fps=lower[-1])
        return replace(step, moved=step.moved + 1) if step.moved < self.movable else None

    def up(self, step: Step) -> Step | None:
        """Better: the way of `down` back."""
        if step.moved > 0:
            return replace(step, moved=step.moved - 1)
        higher = [rate for rate in self.rates if rate > step.fps]
        if higher:
            return replace(step, fps=higher[0])
        return replace(step, size=step.size + 1) if step.size < self.largest else None


def stepwise(
    *,
    job_uid: str,
    dag: DagInfo,
    resource_info: ResourceInfo,
    last_plan_res: PlanResult | None,
    user_constraint: ConstraintInfo,
    generator_output: GeneratorInfo | None = None,
    state: PolicyState | None = None,
) -> Answer:
    """Too slow: smaller pictures, then fewer, then the last stage to the cloud; too fast: the way back.

    Nothing is changed between lo (or 0.8 hi) and hi, nor before two periods in a row say the same. state: `step`, the
    one in force; `slow`, `fast`: periods in a row; `hold`: periods for which no step up is tried; `patience`: how long
    the next hold will be; `tried`: the last step was up.

    Arguments as of `contract.Policy`.
    """
    state = {} if state is None else state
    options = _make_options(dag, resource_info, generator_output)
    step, hi = _find_step(state, options), user_constraint["delay"][1]
    if step is None:
        step = _choose_first(options, dag, resource_info, hi, state)
    else:
        delay = measure_delay_s(dag, last_plan_res)
        step = _choose_next(step, options, delay, user_constraint["delay"], state)
    state["step"] = asdict(step)
    return _make_conf(step).to_json(), _choose_places(step, options, resource_info, state)


def _make_options(dag: DagInfo, resource_info: ResourceInfo, generator_output: GeneratorInfo | None) -> _Options:
    stages, source = tuple(stages_of(dag)), generator_output or {}
    movable = 0
    while movable < len(stages) and is_served(resource_info, stages[-1 - movable], "cloud"):
        movable += 1
    largest = len(sizes_within(source.get("height") or 0)) - 1
    return _Options(stages, tuple(fps_steps(source.get("fps"))), movable, largest)


def _find_step(state: Mapping[str, Any], options: _Options) -> Step | None:
    """The step in force; for a plan that another policy made, the nearest one."""
    plan, remembered = last_plan(state), state.get("step")
    if plan is None:
        return None
    if isinstance(remembered, Mapping):
        step = Step(remembered["size"], remembered["fps"], min(remembered["moved"], options.movable))
        if plan["video_conf"].get("resolution") == SIZES[step.size] and plan["video_conf"].get("fps") == step.fps:
            return step
    moved = 0
    for stage in reversed(options.stages[len(options.stages) - options.movable :]):
        if plan["flow_mapping"].get(stage, {}).get("node_role") != "cloud":
            break
        moved += 1
    return Step(SIZES.index(plan["video_conf"]["resolution"]), float(plan["video_conf"]["fps"]), moved)


def _choose_first(options: _Options, dag: DagInfo, resource_info: ResourceInfo, hi: float, state: PolicyState) -> Step:
    """480p, all here; where the profile knows that this is too slow, the first step down that is not."""
    conf = VideoConf()
    rates = [rate for rate in options.rates if rate <= conf.fps] or [options.rates[0]]
    step: Step | None = Step(min(SIZES.index(conf.resolution), options.largest), rates[-1], 0)
    state["reason"] = "The first plan."
    while step is not None:
        last, places = step, _choose_places(step, options, resource_info, state)
        delay = predict_delay_s(dag, _make_conf(step), places, resource_info, state)
        if delay is None or delay <= hi:
            if delay is not None:
                state["reason"] = f"The first plan: {delay:.3f} s foreseen."
            return step
        step = options.down(step)
    state["reason"] = "The first plan: none is foreseen to be fast enough."
    return last


def _choose_next(
    step: Step, options: _Options, delay: float | None, limits: tuple[float, float], state: PolicyState
) -> Step:
    if delay is None:
        state["reason"] = "Nothing has been measured since the last plan."
        return step
    lo, hi = limits
    is_slow, is_fast = delay > hi, delay < (lo if lo >= 0 else BAND * hi)
    state["slow"] = state.get("slow", 0) + 1 if is_slow else 0
    state["fast"] = state.get("fast", 0) + 1 if is_fast else 0
    state["hold"] = max(0, state.get("hold", 0) - 1)
    summary = f"{delay:.3f} s of {hi:g} s"
    if state["slow"] >= PERIODS:
        return _take(options.down(step), step, summary, state, is_up=False)
    if state["fast"] >= PERIODS and not state["hold"]:
        return _take(options.up(step), step, summary, state, is_up=True)
    state["reason"] = f"{summary}: no change yet." if is_slow or is_fast else f"{summary}: no change."
    return step


def _take(next_step: Step | None, step: Step, summary: str, state: PolicyState, *, is_up: bool) -> Step:
    direction = "fast" if is_up else "slow"
    if next_step is None:
        state["reason"] = f"{summary}: too {direction}, and no step is left."
        return step
    if not is_up and state.get("tried"):
        state["hold"] = state.get("patience", FIRST_PATIENCE)
        state["patience"] = min(2 * state["hold"], MOST_PATIENCE)
    state["slow"] = state["fast"] = 0
    state["tried"] = is_up
    state["reason"] = f"{summary}: too {direction}; {_describe_difference(step, next_step)}."
    return next_step


def _describe_difference(old: Step, new: Step) -> str:
    if old.size != new.size:
        return f"{SIZES[old.size]} → {SIZES[new.size]}"
    if old.fps != new.fps:
        return f"{old.fps:g} → {new.fps:g} frames a second"
    return f"{new.moved} of the last stages in the cloud"


def _make_conf(step: Step) -> VideoConf:
    return VideoConf(SIZES[step.size], step.fps)


def _choose_places(
    step: Step, options: _Options, resource_info: ResourceInfo, state: Mapping[str, Any]
) -> dict[str, Place]:
    here, last = len(options.stages) - step.moved, last_places(state)
    return {
        stage: place_for(resource_info, stage, HERE_FIRST if index < here else CLOUD_FIRST, last=last.get(stage))
        for index, stage in enumerate(options.stages)
    }
