"""Where stages can run, and what a place in a plan looks like. Pure helpers, for policies and their judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.video.errors import BadPlan
from app.video.scheduling.contract import DagInfo, NodeInfo, ResourceInfo

HERE_FIRST = ("host", "edge", "cloud")
CLOUD_FIRST = ("cloud", "host", "edge")
Place = dict[str, Any]
"""{model_id, node_role, node_ip, node}: a PlaceAnswer with the node's name."""


def stages_of(dag: DagInfo) -> list[str]:
    """In an order in which each comes after what it needs; the generator is none of them."""
    return [stage for stage in dag["flow"] if stage != dag["generator"]]


def serving(resource_info: ResourceInfo, stage: str) -> list[NodeInfo]:
    """Nodes that are online and serve it, by key."""
    return [info for _, info in sorted(resource_info.items()) if info["online"] and stage in info["service"]]


def place(info: NodeInfo, model_id: int = 0) -> Place:
    return {"model_id": model_id, "node_role": info["role"], "node_ip": info["ip"], "node": info["node"]}


def place_for(
    resource_info: ResourceInfo, stage: str, roles: Sequence[str], *, model_id: int = 0, last: object = None
) -> Place:
    """At a node of the first of the roles that serves the stage. last: the place it has; of nodes of the same role that
    one is taken. Raises BadPlan when no node serves it."""
    nodes = serving(resource_info, stage)
    name = last.get("node") if isinstance(last, Mapping) else None
    for role in roles:
        of_role = [info for info in nodes if info["role"] == role]
        if of_role:
            return place(next((info for info in of_role if info["node"] == name), of_role[0]), model_id)
    raise BadPlan(f"No node that is online serves {stage}.", hint="Look at the nodes' page.")


def all_at(
    dag: DagInfo,
    resource_info: ResourceInfo,
    state: dict[str, Any],
    roles: Sequence[str],
    own: Sequence[str],
    said: str,
) -> dict[str, Place]:
    """Every stage at a node of the first of the roles that serves it. own: the roles that are meant; said: the reason
    when there is no stage elsewhere."""
    last = last_places(state)
    places = {stage: place_for(resource_info, stage, roles, last=last.get(stage)) for stage in stages_of(dag)}
    others = [stage for stage, found in places.items() if found["node_role"] not in own]
    state["reason"] = f"Only elsewhere there is {', '.join(others)}." if others else said
    return places


def is_served(resource_info: ResourceInfo, stage: str, role: str) -> bool:
    return any(info["role"] == role for info in serving(resource_info, stage))


def find_node(resource_info: ResourceInfo, node_ip: str, *, node: str = "", role: str = "") -> NodeInfo:
    """node_ip: an address or a name; node and role tell nodes that share an address apart. Raises BadPlan."""
    named = [
        info
        for key, info in resource_info.items()
        if node_ip in (key, info["ip"], info["node"]) and node in ("", info["node"])
    ]
    if not named:
        raise BadPlan(f"There is no node {node or node_ip} at {node_ip}." if node else f"There is no node {node_ip}.")
    found = [info for info in named if role in ("", info["role"])]
    if not found:
        raise BadPlan(f"{node_ip} is {named[0]['role']} of this job, not {role}.")
    if len(found) > 1:
        exact = [info for info in found if node_ip == info["node"]]
        if len(exact) != 1:
            names = ", ".join(info["node"] for info in found)
            raise BadPlan(f"{names} share the address {node_ip}.", hint="Say which one by its name.")
        found = exact
    return found[0]


def last_plan(state: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The plan in force as {video_conf, flow_mapping}; None when there is none yet."""
    plan = (state or {}).get("last_plan")
    return plan if isinstance(plan, Mapping) and plan.get("video_conf") and plan.get("flow_mapping") else None


def last_places(state: Mapping[str, Any] | None) -> Mapping[str, Any]:
    plan = last_plan(state)
    return plan["flow_mapping"] if plan else {}
