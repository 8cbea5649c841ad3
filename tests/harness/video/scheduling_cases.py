"""What schedulers are asked, as their tests need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.video.model.report import PlanResult
from app.video.scheduling.contract import DagInfo, NodeInfo, ResourceInfo, StageFacts
from app.video.scheduling.policy_messages import PlanningInput

GENERATOR = "SingleFrameGenerator"
STAGES = ("face_detection", "face_alignment")


def a_node(name: str, role: str, ip: str, services: Sequence[str] = STAGES, **changes: Any) -> NodeInfo:
    node: dict[str, Any] = {
        "node": name,
        "ip": ip,
        "role": role,
        "online": True,
        "cpu_ratio": 0.1,
        "mem_ratio": 0.1,
        "cores": 2,
        "accelerators": [],
        "up_mbps": 20.0,
        "down_mbps": 20.0,
        "age_s": 1.0,
        "service": {stage: {"n_process": 1, "cpu_ratio": 0.1, "mem_ratio": 0.1} for stage in services},
    }
    return NodeInfo(**{**node, **changes})  # type: ignore[typeddict-item]


def facts(*before: str, n_models: int = 3) -> StageFacts:
    return {"kind": "k", "n_models": n_models, "before": list(before), "pictures": True}


def a_dag_info() -> DagInfo:
    return {
        "generator": GENERATOR,
        "flow": [GENERATOR, *STAGES],
        "input": {},
        "stages": {"face_detection": facts(), "face_alignment": facts("face_detection", n_models=1)},
    }


def nodes(*infos: NodeInfo) -> ResourceInfo:
    """By address; by name where they share one."""
    ips = [node["ip"] for node in infos]
    return {node["ip"] if ips.count(node["ip"]) == 1 else node["node"]: node for node in infos}


HOST = a_node("edge0", "host", "10.0.0.1")
EDGE = a_node("edge1", "edge", "10.0.0.3")
CLOUD = a_node("cloud0", "cloud", "10.0.0.2")


def an_answer(role: str = "host", ip: str = "10.0.0.1", **changes: Any) -> dict[str, Any]:
    """The flow mapping with both stages at one place."""
    return {stage: {"model_id": 0, "node_role": role, "node_ip": ip, **changes} for stage in STAGES}


def a_question(policy: str = "edge_only", **changes: Any) -> PlanningInput:
    """state: beside what is always in it."""
    state = {"last_plan": None, "profile": [], "now": 5.0, **changes.pop("state", {})}
    given: dict[str, Any] = {
        "policy": policy,
        "job_uid": "GLOBAL_ID_1.SUB_ID_1",
        "dag": a_dag_info(),
        "resource_info": nodes(HOST, CLOUD),
        "last_plan_res": None,
        "user_constraint": {"delay": (-1.0, 0.3), "quality": 0.0, "given": {}},
        "generator_output": None,
        "state": state,
    }
    return PlanningInput(**{**given, **changes})


def a_result(e2e_p95: float, **more: Any) -> PlanResult:
    result: Any = {"delay": {"face_detection": e2e_p95 / 2}, "e2e_p95": e2e_p95, "frames": 10, **more}
    return result
