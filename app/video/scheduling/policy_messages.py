"""What goes to the process that runs policies, and what comes back. JSON both ways."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.video.model.plan import Plan
from app.video.model.report import PlanResult
from app.video.scheduling.contract import ConstraintInfo, DagInfo, GeneratorInfo, ResourceInfo

GIVEN = ("last_plan", "profile", "now")
"""Of the state: set anew before each call, and not kept."""


@dataclass(frozen=True)
class PlanningInput:
    policy: str
    job_uid: str
    dag: DagInfo
    resource_info: ResourceInfo
    last_plan_res: PlanResult | None
    user_constraint: ConstraintInfo
    generator_output: GeneratorInfo | None
    state: Mapping[str, Any]
    """With last_plan, profile and now already in it."""

    @property
    def call(self) -> dict[str, Any]:
        """The keywords that the policy is called with."""
        return {
            "job_uid": self.job_uid,
            "dag": self.dag,
            "resource_info": self.resource_info,
            "last_plan_res": self.last_plan_res,
            "user_constraint": self.user_constraint,
            "generator_output": self.generator_output,
            "state": dict(self.state),
        }

    @property
    def memory(self) -> dict[str, Any]:
        """What the policy itself put into the state."""
        return {key: value for key, value in self.state.items() if key not in GIVEN}

    @property
    def inputs_hash(self) -> str:
        """sha256 over all of it but now, the same for the same inputs."""
        state = {key: value for key, value in self.state.items() if key != "now"}
        written = json.dumps({"policy": self.policy, **self.call, "state": state}, sort_keys=True)
        return hashlib.sha256(written.encode()).hexdigest()


@dataclass(frozen=True)
class Decision:
    """plan: None when the last one stays. seq is 0: who stores it numbers it. outcome: `new`, `same` (as the last),
    `raised`, `late`, `invalid`, `unknown` (no such policy). reason: in words, for the log. state: to be kept, without
    what is set anew before each call.

    Of a policy that failed there is a plan where there was none to stay with, or that one cannot be carried out any
    more: the simplest that can.
    """

    plan: Plan | None
    outcome: str
    reason: str
    took_ms: float
    inputs_hash: str
    state: Mapping[str, Any]
