"""Messages to and from the process that runs policies. JSON in both directions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.video.model.plan import Plan
from app.video.model.report import PlanResult
from app.video.scheduling.contract import ConstraintInfo, DagInfo, GeneratorInfo, ResourceInfo

RESET_KEYS = ("last_plan", "profile", "now")
"""Keys of the state that are set again before each call and are not stored."""


@dataclass(frozen=True)
class PlanningInput:
    """What a policy is called with."""

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
        return {key: value for key, value in self.state.items() if key not in RESET_KEYS}

    @property
    def inputs_hash(self) -> str:
        """sha256 over all of it but now, the same for the same inputs."""
        state = {key: value for key, value in self.state.items() if key != "now"}
        written = json.dumps({"policy": self.policy, **self.call, "state": state}, sort_keys=True)
        return hashlib.sha256(written.encode()).hexdigest()


@dataclass(frozen=True)
class Decision:
    """What came of a call of a policy."""

    plan: Plan | None
    """None: the plan in force stays. seq is 0: whoever stores it numbers it. Where a policy failed and there is no plan
    that could stay, it is the simplest one that can be carried out."""
    outcome: str
    """`new`, `same` (as the one in force), `raised`, `late`, `invalid`, `unknown` (no such policy)."""
    reason: str
    """In words, for the log."""
    took_ms: float
    inputs_hash: str
    """See PlanningInput."""
    state: Mapping[str, Any]
    """To be stored for the next call, without RESET_KEYS."""
