"""Whether what a policy, or somebody by hand, wants can be carried out at all. Pure."""

from __future__ import annotations

from app.video.errors import BadPlan
from app.video.model.plan import Plan, StagePlace, read_flow_mapping, read_video_conf
from app.video.model.reader import shown
from app.video.scheduling.contract import DagInfo, NodeInfo, ResourceInfo
from app.video.scheduling.placement import find_node, stages_of


def judged(
    video_conf: object, flow_mapping: object, *, dag: DagInfo, resource_info: ResourceInfo, policy: str = ""
) -> Plan:
    """The plan, seq 0, with each place's node and address as the resource picture has them. The generator may stand in
    the mapping and is left out. Raises BadPlan for anything that cannot be: an unknown size, a stage that is missing or
    is none, a model there is not, a node that is unknown, offline, of another role, or does not serve the stage."""
    conf, stages = read_video_conf(video_conf), stages_of(dag)
    wanted = read_flow_mapping(flow_mapping)
    wanted.pop(dag["generator"], None)
    for stage in wanted:
        if stage not in stages:
            raise BadPlan(f"flow_mapping.{stage}: is no stage of the DAG.", hint=f"There are {', '.join(stages)}.")
    for stage in stages:
        if stage not in wanted:
            raise BadPlan(f"flow_mapping.{stage}: is missing.")
    places = {stage: _place(stage, wanted[stage], dag, resource_info) for stage in stages}
    return Plan(0, conf, places, policy)


def _place(stage: str, wanted: StagePlace, dag: DagInfo, resource_info: ResourceInfo) -> StagePlace:
    at = f"flow_mapping.{stage}"
    n_models = max(1, dag["stages"][stage]["n_models"])
    if wanted.model_id >= n_models:
        raise BadPlan(f"{at}.model_id: is {shown(wanted.model_id)}; the stage has 0 to {n_models - 1}.")
    try:
        info = find_node(resource_info, wanted.node_ip, node=wanted.node, role=wanted.node_role.value)
    except BadPlan as error:
        raise BadPlan(f"{at}: {error.message}", hint=error.hint) from error
    _check(at, stage, info)
    return StagePlace(wanted.model_id, wanted.node_role, info["ip"], info["node"])


def _check(at: str, stage: str, info: NodeInfo) -> None:
    if not info["online"]:
        raise BadPlan(f"{at}: {info['node']} is offline.")
    if stage not in info["service"]:
        raise BadPlan(f"{at}: {info['node']} does not serve {stage}.")
