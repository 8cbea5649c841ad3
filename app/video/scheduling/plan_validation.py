"""Checks whether a plan of a policy, or of a user, can be carried out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.video.errors import BadPlan
from app.video.model.plan import Plan, StagePlace, read_flow_mapping, read_video_conf
from app.video.model.reader import shorten_value
from app.video.scheduling.contract import DagInfo, NodeInfo, ResourceInfo
from app.video.scheduling.placement import find_node, stages_of
from app.video.scheduling.source_limits import within_source


def validate_plan(
    video_conf: object,
    flow_mapping: object,
    *,
    dag: DagInfo,
    resource_info: ResourceInfo,
    source: Mapping[str, Any] | None = None,
    policy: str = "",
) -> Plan:
    """The plan, with each place's node and address as the resource picture has them, and no more than the source gives.

    Args:
        video_conf: As read_video_conf takes it.
        flow_mapping: As read_flow_mapping takes it; the generator may be in it and is omitted.
        source: See within_source.
        policy: The name of the policy, to be noted in the plan.

    Returns:
        With seq 0: it is numbered when it is stored.

    Raises:
        BadPlan: An unknown size, a stage that is missing or unknown, a model that does not exist, or a node that is
            unknown, offline, of another role, or does not serve the stage.
    """
    conf, stages = read_video_conf(video_conf), stages_of(dag)
    mapping = read_flow_mapping(flow_mapping)
    mapping.pop(dag["generator"], None)
    for stage in mapping:
        if stage not in stages:
            raise BadPlan(f"flow_mapping.{stage}: is no stage of the DAG.", hint=f"There are {', '.join(stages)}.")
    for stage in stages:
        if stage not in mapping:
            raise BadPlan(f"flow_mapping.{stage}: is missing.")
    places = {stage: _place(stage, mapping[stage], dag, resource_info) for stage in stages}
    return Plan(0, within_source(conf, source), places, policy)


def _place(stage: str, place: StagePlace, dag: DagInfo, resource_info: ResourceInfo) -> StagePlace:
    at = f"flow_mapping.{stage}"
    n_models = max(1, dag["stages"][stage]["n_models"])
    if place.model_id >= n_models:
        raise BadPlan(f"{at}.model_id: is {shorten_value(place.model_id)}; the stage has 0 to {n_models - 1}.")
    try:
        info = find_node(resource_info, place.node_ip, node=place.node, role=place.node_role.value)
    except BadPlan as error:
        raise BadPlan(f"{at}: {error.message}", hint=error.hint) from error
    _check(at, stage, info)
    return StagePlace(place.model_id, place.node_role, info["ip"], info["node"])


def _check(at: str, stage: str, info: NodeInfo) -> None:
    if not info["online"]:
        raise BadPlan(f"{at}: {info['node']} is offline.")
    if stage not in info["service"]:
        raise BadPlan(f"{at}: {info['node']} does not serve {stage}.")
