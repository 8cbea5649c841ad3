"""Where stages can run, and the format of a place in a plan. Pure; for policies and for the validation of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.video.errors import BadPlan
from app.video.scheduling.contract import DagInfo, NodeInfo, PlaceAnswer, ResourceInfo

HOST, CLOUD = "host", "cloud"
HERE_FIRST = ("host", "edge", "cloud")
CLOUD_FIRST = ("cloud", "host", "edge")


class Place(PlaceAnswer):
    """Where a stage of a plan runs, with the node's name."""

    node: str


def stages_of(dag: DagInfo) -> list[str]:
    """The stages, each after everything it needs; without the generator."""
    return [stage for stage in dag["flow"] if stage != dag["generator"]]


def nodes_serving(resource_info: ResourceInfo, stage: str) -> list[NodeInfo]:
    """The nodes that are online and serve the stage, by their keys."""
    return [info for _, info in sorted(resource_info.items()) if info["online"] and stage in info["service"]]


def place(info: NodeInfo, model_id: int = 0) -> Place:
    return {"model_id": model_id, "node_role": info["role"], "node_ip": info["ip"], "node": info["node"]}


def place_on(info: NodeInfo, model_id: int, dag: DagInfo, stage: str) -> Place:
    """A stage on a node, as flow_mapping has it.

    Args:
        model_id: the largest that the stage has, where it has not so many.
    """
    model = min(model_id, max(0, dag["stages"][stage]["n_models"] - 1))
    return place(info, model)


def place_for(
    resource_info: ResourceInfo, stage: str, roles: Sequence[str], *, model_id: int = 0, last: object = None
) -> Place:
    """A place at a node of the first of the roles that has one serving the stage.

    Args:
        last: The place of the stage in the current plan: among nodes of one role that node is preferred.

    Raises:
        BadPlan: No node that is online serves it.
    """
    nodes = nodes_serving(resource_info, stage)
    name = last.get("node") if isinstance(last, Mapping) else None
    for role in roles:
        of_role = [info for info in nodes if info["role"] == role]
        if of_role:
            return place(next((info for info in of_role if info["node"] == name), of_role[0]), model_id)
    raise BadPlan(f"No node that is online serves {stage}.", hint="Look at the nodes' page.")


def is_served(resource_info: ResourceInfo, stage: str, role: str) -> bool:
    return any(info["role"] == role for info in nodes_serving(resource_info, stage))


def find_node(resource_info: ResourceInfo, node_ip: str, *, node: str = "", role: str = "") -> NodeInfo:
    """Returns the node that a place of a plan refers to.

    Args:
        node_ip: Its address, its name or its key.
        node: Its name, where nodes share an address.
        role: Its role as seen from the job, where nodes share an address.

    Raises:
        BadPlan: There is none, or several.
    """
    matches = [
        info
        for key, info in resource_info.items()
        if node_ip in (key, info["ip"], info["node"]) and node in ("", info["node"])
    ]
    if not matches:
        raise BadPlan(f"There is no node {node or node_ip} at {node_ip}." if node else f"There is no node {node_ip}.")
    of_role = [info for info in matches if role in ("", info["role"])]
    if not of_role:
        raise BadPlan(f"{node_ip} is {matches[0]['role']} of this job, not {role}.")
    if len(of_role) > 1:
        exact = [info for info in of_role if node_ip == info["node"]]
        if len(exact) != 1:
            names = ", ".join(info["node"] for info in of_role)
            raise BadPlan(f"{names} share the address {node_ip}.", hint="Say which one by its name.")
        of_role = exact
    return of_role[0]


def node_of(place: Mapping[str, object], resource_info: ResourceInfo) -> NodeInfo:
    """Returns the node at which a plan places a stage.

    Raises:
        ValueError: The node is not in the resource picture.
    """
    name, ip, role = place.get("node"), place.get("node_ip"), place.get("node_role")
    for info in resource_info.values():
        if info["node"] == name if name else info["ip"] == ip and info["role"] == role:
            return info
    raise ValueError(f"The plan names a node {name or ip} that there is not.")


def nodes_key(mapping: Mapping[str, Mapping[str, object]]) -> str:
    """The names of its nodes, as in corrections."""
    return "+".join(sorted({str(place.get("node") or place["node_ip"]) for place in mapping.values()}))


def last_plan(state: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The current plan as {video_conf, flow_mapping}; None if there is none yet."""
    plan = (state or {}).get("last_plan")
    return plan if isinstance(plan, Mapping) and plan.get("video_conf") and plan.get("flow_mapping") else None


def last_places(state: Mapping[str, Any] | None) -> Mapping[str, Any]:
    plan = last_plan(state)
    return plan["flow_mapping"] if plan else {}
