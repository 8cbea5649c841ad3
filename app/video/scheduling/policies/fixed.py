"""The policy `fixed`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.video.model.plan import VideoConf
from app.video.model.report import PlanResult
from app.video.scheduling.contract import Answer, ConstraintInfo, DagInfo, GeneratorInfo, PolicyState, ResourceInfo
from app.video.scheduling.placement import (
    CLOUD_FIRST,
    HERE_FIRST,
    Place,
    last_plan,
    nodes_serving,
    place_for,
    stages_of,
)


def fixed(
    *,
    job_uid: str,
    dag: DagInfo,
    resource_info: ResourceInfo,
    last_plan_res: PlanResult | None,
    user_constraint: ConstraintInfo,
    generator_output: GeneratorInfo | None = None,
    state: PolicyState | None = None,
) -> Answer:
    """Keeps the plan that there is; the first one is 480p with all stages at the host, else in the cloud.

    A stage whose node has gone runs elsewhere until it is back. state: `kept`, the plan that is kept; `answered`, the
    one that stood in for it: another plan in force than this was given by somebody, and is the one to keep from now on.

    Arguments as of `contract.Policy`.
    """
    state = {} if state is None else state
    plan = _plan_to_keep(state)
    places = dict(plan["flow_mapping"]) if plan else {}
    places_now = {stage: _place(resource_info, stage, places.get(stage)) for stage in stages_of(dag)}
    conf = dict(plan["video_conf"]) if plan else VideoConf().to_json()
    state["kept"] = {
        "video_conf": conf,
        "flow_mapping": {stage: places.get(stage, places_now[stage]) for stage in places_now},
    }
    state["answered"] = {"video_conf": conf, "flow_mapping": places_now}
    elsewhere = [stage for stage, place in places_now.items() if stage in places and place != places[stage]]
    state["reason"] = (
        f"The plan is kept, but for {', '.join(elsewhere)}: what it names is not there now."
        if elsewhere
        else ("The plan is kept." if plan else "The first plan.")
    )
    return conf, places_now


def _plan_to_keep(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    last, plan = last_plan(state), state.get("kept")
    if plan is None or (last is not None and last != state.get("answered")):
        return last
    return dict(plan)


def _place(resource_info: ResourceInfo, stage: str, place: Place | None) -> Place:
    """Where it is kept if that is possible; else a place of the same role, the host, or any."""
    if place is None:
        roles = ("host", *CLOUD_FIRST)
        return place_for(resource_info, stage, roles)
    for info in nodes_serving(resource_info, stage):
        if (
            place.get("node", "") in ("", info["node"])
            and place["node_role"] == info["role"]
            and (place["node_ip"] in (info["ip"], info["node"]))
        ):
            return place.copy()
    roles = (place["node_role"], *HERE_FIRST)
    return place_for(resource_info, stage, roles, model_id=place["model_id"])
