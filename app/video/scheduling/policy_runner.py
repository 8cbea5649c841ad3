"""Runs policies in a process of their own, which is ended when one takes too long, and validates their plans."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from app.kit.clock import ms_since
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import printable
from app.video.errors import BadPlan
from app.video.model.plan import Plan
from app.video.scheduling.contract import LIMIT_S
from app.video.scheduling.placement import last_plan
from app.video.scheduling.plan_validation import validate_plan
from app.video.scheduling.policies.one_side import edge_only
from app.video.scheduling.policy_client import InvalidAnswer, PolicyProcess, ProcessEnded, ProcessLate, StartFailed
from app.video.scheduling.policy_messages import Decision, PlanningInput

SIMPLEST = edge_only.__name__


@dataclass(frozen=True)
class _Failed:
    outcome: str
    reason: str
    took_ms: float


class PolicyRunner:
    """One for a process of actors, shared by its threads. The policies' process is started with the first call."""

    def __init__(self, *, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._lock = threading.Lock()
        self._process: PolicyProcess | None = None

    def decide(self, planning_input: PlanningInput) -> Decision:
        """Returns the policy's decision. It never raises, whatever the policy does: the current plan then stays."""
        with self._lock:
            reply = self._call(planning_input)
        if isinstance(reply, _Failed):
            return _decide_fallback(planning_input, reply)
        took_ms = float(reply["took_ms"])
        try:
            video_conf, flow_mapping = reply["answer"]
            plan = _validate(video_conf, flow_mapping, planning_input)
        except BadPlan as error:
            reason = f"{planning_input.policy} answered a plan that cannot be: {error.message}"
            return _decide_fallback(planning_input, _Failed("invalid", reason, took_ms))
        return _make_decision(planning_input, plan, reply, took_ms)

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    def _call(self, planning_input: PlanningInput) -> JsonObject | _Failed:
        began, name = time.perf_counter(), planning_input.policy
        try:
            process = self._ready()
            began = time.perf_counter()
            reply = process.ask({"policy": name, "call": planning_input.call}, self.limit_s)
        except StartFailed as error:
            failed = _Failed("raised", f"The process that runs policies did not start ({error}).", ms_since(began))
        except ProcessLate as error:
            failed = _Failed("late", f"{name} took {error} and was ended.", ms_since(began))
        except ProcessEnded as error:
            failed = _Failed("raised", f"{name} ended the process that it ran in ({error}).", ms_since(began))
        except InvalidAnswer as error:
            failed = _Failed("invalid", f"{name} gave {error}.", ms_since(began))
        else:
            if "error" not in reply:
                return reply
            failed = _make_failure(name, reply)
            if not reply.get("is_worn"):
                return failed
        self._end()
        return failed

    def _ready(self) -> PolicyProcess:
        if self._process is not None and not self._process.is_idle:
            self._end()
        if self._process is None:
            self._process = PolicyProcess()
        return self._process


def _make_failure(policy: str, reply: Mapping[str, Any]) -> _Failed:
    prefix = {"raised": f"{policy} raised: ", "invalid": f"{policy}: "}.get(reply["error"], "")
    reason = printable(reply["reason"]).rstrip(".")
    return _Failed(reply["error"], f"{prefix}{reason}.", float(reply["took_ms"]))


def _validate(video_conf: object, flow_mapping: object, planning_input: PlanningInput, policy: str = "") -> Plan:
    return validate_plan(
        video_conf,
        flow_mapping,
        dag=planning_input.dag,
        resource_info=planning_input.resource_info,
        source=planning_input.generator_output,
        policy=policy or planning_input.policy,
    )


def _make_decision(planning_input: PlanningInput, plan: Plan, reply: Mapping[str, Any], took_ms: float) -> Decision:
    memory, reason, note = _read_memory(planning_input, reply)
    last = _find_last(planning_input)
    is_same = last is not None and (last.video_conf, last.flow_mapping) == (plan.video_conf, plan.flow_mapping)
    full_reason = " ".join(part for part in (reason, note) if part)
    return Decision(
        None if is_same else plan,
        "same" if is_same else "new",
        full_reason or f"{planning_input.policy} decided so.",
        took_ms,
        planning_input.inputs_hash,
        memory,
    )


def _read_memory(planning_input: PlanningInput, reply: Mapping[str, Any]) -> tuple[JsonObject, str, str]:
    """The state to store, the policy's reason, and a note if the new state cannot be stored: the old one then stays."""
    reason, problem = printable(reply["said"]), reply.get("state_problem")
    if problem:
        return planning_input.memory, reason, f"Its state was not kept: {printable(problem)}."
    return dict(reply["state"]), reason, ""


def _find_last(planning_input: PlanningInput) -> Plan | None:
    """The current plan; None if there is none or it cannot be carried out now."""
    plan = last_plan(planning_input.state)
    if plan is None:
        return None
    with suppress(BadPlan):
        as_it_is = replace(planning_input, generator_output=None)  # perhaps beyond the source
        return _validate(plan["video_conf"], plan["flow_mapping"], as_it_is)
    return None


def _decide_fallback(planning_input: PlanningInput, failed: _Failed) -> Decision:
    """The decision if a policy failed: the current plan stays, or otherwise the simplest one that can be carried
    out."""
    plan, reason = None, f"{failed.reason} The last plan stays."
    if _find_last(planning_input) is None:
        try:
            plan = _validate(*edge_only(**{**planning_input.call, "state": {}}), planning_input, SIMPLEST)
            reason = f"{failed.reason} There is no plan to stay with: the simplest one is taken."
        except ModelmillError as error:
            reason = f"{failed.reason} There is no other plan: {error.message}"
    return Decision(plan, failed.outcome, reason, failed.took_ms, planning_input.inputs_hash, planning_input.memory)
