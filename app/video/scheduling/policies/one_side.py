"""The policies `edge_only` and `cloud_only`."""

from __future__ import annotations

from collections.abc import Sequence

from app.video.model.plan import VideoConf
from app.video.model.report import PlanResult
from app.video.scheduling.contract import Answer, ConstraintInfo, DagInfo, GeneratorInfo, PolicyState, ResourceInfo
from app.video.scheduling.placement import CLOUD_FIRST, HERE_FIRST, last_places, place_for, stages_of


def edge_only(
    *,
    job_uid: str,
    dag: DagInfo,
    resource_info: ResourceInfo,
    last_plan_res: PlanResult | None,
    user_constraint: ConstraintInfo,
    generator_output: GeneratorInfo | None = None,
    state: PolicyState | None = None,
) -> Answer:
    """All stages at the host, else at another edge; in the cloud only what nothing else serves.

    Arguments as of `contract.Policy`.
    """
    reason = "All stages run at the host or at an edge."
    return _place_all(HERE_FIRST, ("host", "edge"), reason, dag, resource_info, state)


def cloud_only(
    *,
    job_uid: str,
    dag: DagInfo,
    resource_info: ResourceInfo,
    last_plan_res: PlanResult | None,
    user_constraint: ConstraintInfo,
    generator_output: GeneratorInfo | None = None,
    state: PolicyState | None = None,
) -> Answer:
    """All stages in the cloud; at the host or another edge only what the cloud does not serve.

    Arguments as of `contract.Policy`.
    """
    return _place_all(CLOUD_FIRST, ("cloud",), "All stages run in the cloud.", dag, resource_info, state)


def _place_all(
    roles: Sequence[str],
    own: Sequence[str],
    reason: str,
    dag: DagInfo,
    resource_info: ResourceInfo,
    state: PolicyState | None,
) -> Answer:
    """Each stage at a node of the first of the roles that serves it.

    Args:
        own: The roles at which the policy wants all stages.
        reason: For the log, where all of them are there.
    """
    state = {} if state is None else state
    last = last_places(state)
    places = {stage: place_for(resource_info, stage, roles, last=last.get(stage)) for stage in stages_of(dag)}
    others = [stage for stage, place in places.items() if place["node_role"] not in own]
    state["reason"] = f"Only elsewhere there is {', '.join(others)}." if others else reason
    return VideoConf().to_json(), places
