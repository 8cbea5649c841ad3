"""The policy `cloud_only`."""

from __future__ import annotations

from typing import Any

from app.video.model.plan import VideoConf
from app.video.model.report import PlanResult
from app.video.scheduling.contract import Answer, ConstraintInfo, DagInfo, GeneratorInfo, ResourceInfo
from app.video.scheduling.placement import CLOUD_FIRST, all_at

OWN = ("cloud",)


def cloud_only(
    *,
    job_uid: str,  # noqa: ARG001  # the signature is the requirement's
    dag: DagInfo,
    resource_info: ResourceInfo,
    last_plan_res: PlanResult | None,  # noqa: ARG001
    user_constraint: ConstraintInfo,  # noqa: ARG001
    generator_output: GeneratorInfo | None = None,  # noqa: ARG001
    state: dict[str, Any] | None = None,
) -> Answer:
    """All stages in the cloud; at the host or another edge only what the cloud does not serve."""
    state = {} if state is None else state
    places = all_at(dag, resource_info, state, CLOUD_FIRST, OWN, "All stages run in the cloud.")
    return VideoConf().to_json(), places
