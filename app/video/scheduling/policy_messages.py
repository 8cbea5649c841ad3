"""Messages to and from the process that runs policies. JSON in both directions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.kit.text.json_values import JsonObject
from app.video.model.plan import Plan
from app.video.model.report import PlanResult
from app.video.scheduling.contract import ConstraintInfo, DagInfo, GeneratorInfo, ResourceInfo

RESET_KEYS = ("last_plan", "profile", "now")
"""Keys of the state that are set again before each call and are not stored."""


@dataclass(frozen=True)
class PlanningInput:
    """The input of a policy."""

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
    def call(self) -> JsonObject:
        """The keywords of the policy's call."""
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
    def memory(self) -> JsonObject:
        """The entries that the policy itself added to the state."""
        return {key: value for key, value in self.state.items() if key not in RESET_KEYS}

    @property
    def inputs_hash(self) -> str:
        """SHA-256 of everything except now: the same for the same inputs."""
        state = {key: value for key, value in self.state.items() if key != "now"}
        written = json.dumps({"policy": self.policy, **self.call, "state": state}, sort_keys=True)
        return hashlib.sha256(written.encode()).hexdigest()


@dataclass(frozen=True)
class Decision:
    """The result of a policy's call."""

    plan: Plan | None
    """None: the current plan stays. seq is 0: the store numbers it. If a policy failed and no current plan can stay, it
    is the simplest one that can be carried out."""
    outcome: str
    """`new`, `same` (as the current one), `raised`, `late`, `invalid`, `unknown` (no such policy)."""
    reason: str
    """In words, for the log."""
    took_ms: float
    inputs_hash: str
    """See PlanningInput."""
    state: Mapping[str, Any]
    """Stored for the next call, without RESET_KEYS."""
