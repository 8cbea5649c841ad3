"""Runs policies in a process of their own, which is ended when one takes too long, and judges what they answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.kit.errors import ModelmillError
from app.video.errors import BadPlan
from app.video.model.plan import Plan
from app.video.scheduling.contract import LIMIT_S
from app.video.scheduling.placement import last_plan
from app.video.scheduling.plan_validation import judged
from app.video.scheduling.policies.edge_only import edge_only
from app.video.scheduling.policy_client import Child, ChildDidNotStart, ChildEnded, ChildLate, ChildSpokeNonsense
from app.video.scheduling.policy_messages import Decision, PlanningInput

SIMPLEST = edge_only.__name__


@dataclass(frozen=True)
class _Failed:
    outcome: str
    reason: str
    took_ms: float


class PolicyRunner:
    """One for a process of actors; threads share it. The child is started with the first question."""

    def __init__(self, *, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._lock = threading.Lock()
        self._child: Child | None = None

    def decide(self, question: PlanningInput) -> Decision:
        """Never raises for what a policy does: the last plan (question.state["last_plan"]) stays then."""
        with self._lock:
            answered = self._asked(question)
        if isinstance(answered, _Failed):
            return _stayed(question, answered)
        took_ms = float(answered["took_ms"])
        try:
            video_conf, flow_mapping = answered["answer"]
            plan = _judged(video_conf, flow_mapping, question)
        except BadPlan as error:
            reason = f"{question.policy} answered a plan that cannot be: {error.message}"
            return _stayed(question, _Failed("invalid", reason, took_ms))
        return _decided(question, plan, answered, took_ms)

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def _asked(self, question: PlanningInput) -> dict[str, Any] | _Failed:
        began, name = time.perf_counter(), question.policy
        try:
            child = self._ready()
            began = time.perf_counter()
            answered = child.ask({"policy": name, "call": question.call}, self.limit_s)
        except ChildDidNotStart as error:
            failed = _Failed("raised", f"The process that runs policies did not start ({error}).", _ms_since(began))
        except ChildLate as error:
            failed = _Failed("late", f"{name} took {error} and was ended.", _ms_since(began))
        except ChildEnded as error:
            failed = _Failed("raised", f"{name} ended the process that it ran in ({error}).", _ms_since(began))
        except ChildSpokeNonsense as error:
            failed = _Failed("invalid", f"{name} gave {error}.", _ms_since(began))
        else:
            if "error" not in answered:
                return answered
            failed = _said(name, answered)
            if not answered.get("is_worn"):
                return failed
        self._end()
        return failed

    def _ready(self) -> Child:
        if self._child is not None and not self._child.is_idle:
            self._end()
        if self._child is None:
            self._child = Child()
        return self._child


def _said(policy: str, answered: Mapping[str, Any]) -> _Failed:
    before = {"raised": f"{policy} raised: ", "invalid": f"{policy}: "}.get(answered["error"], "")
    reason = _one_line(answered["reason"]).rstrip(".")
    return _Failed(answered["error"], f"{before}{reason}.", float(answered["took_ms"]))


def _one_line(text: str) -> str:
    """Others' words, fit for a log: without what no database takes."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _judged(video_conf: object, flow_mapping: object, question: PlanningInput, policy: str = "") -> Plan:
    return judged(
        video_conf,
        flow_mapping,
        dag=question.dag,
        resource_info=question.resource_info,
        policy=policy or question.policy,
    )


def _decided(question: PlanningInput, plan: Plan, answered: Mapping[str, Any], took_ms: float) -> Decision:
    memory, reason, note = _memory(question, answered)
    last = _last(question)
    is_same = last is not None and (last.video_conf, last.flow_mapping) == (plan.video_conf, plan.flow_mapping)
    said = " ".join(part for part in (reason, note) if part)
    return Decision(
        None if is_same else plan,
        "same" if is_same else "new",
        said or f"{question.policy} decided so.",
        took_ms,
        question.inputs_hash,
        memory,
    )


def _memory(question: PlanningInput, answered: Mapping[str, Any]) -> tuple[dict[str, Any], str, str]:
    """What is kept, the policy's reason, and a note where its state could not be kept; then what it had stays."""
    said, problem = _one_line(answered["said"]), answered.get("state_problem")
    if problem:
        return question.memory, said, f"Its state was not kept: {_one_line(problem)}."
    return dict(answered["state"]), said, ""


def _last(question: PlanningInput) -> Plan | None:
    """The plan in force; None when there is none, or it cannot be carried out as things are."""
    plan = last_plan(question.state)
    if plan is None:
        return None
    with suppress(BadPlan):
        return _judged(plan["video_conf"], plan["flow_mapping"], question)
    return None


def _stayed(question: PlanningInput, failed: _Failed) -> Decision:
    """The last plan; where there is none that could be carried out, the simplest that can."""
    plan, reason = None, f"{failed.reason} The last plan stays."
    if _last(question) is None:
        try:
            plan = _judged(*edge_only(**{**question.call, "state": {}}), question, SIMPLEST)
            reason = f"{failed.reason} There is no plan to stay with: the simplest one is taken."
        except ModelmillError as error:
            reason = f"{failed.reason} There is no other plan: {error.message}"
    return Decision(plan, failed.outcome, reason, failed.took_ms, question.inputs_hash, question.memory)
