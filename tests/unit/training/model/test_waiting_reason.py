"""Why a task waits is said in one sentence, with what is free and what is needed."""

from __future__ import annotations

from typing import Any

import pytest

from app.training.model import Demand, Node, WaitingCode, WaitingReason
from app.training.model.gang import Queued, decide
from app.training.service.views import in_words

SENTENCES: list[tuple[WaitingCode, dict[str, Any], str]] = [
    (WaitingCode.GPUS, {"free": 0, "needed": 8}, "waiting: 0 GPUs free, 8 needed"),
    (WaitingCode.GPUS, {"free": 1, "needed": 2}, "waiting: 1 GPU free, 2 needed"),
    (WaitingCode.GPUS, {"free": 7.5, "needed": 8}, "waiting: 7.5 GPUs free, 8 needed"),
    (
        WaitingCode.WHOLE_NODES,
        {"free": 8, "needed": 8, "nodes": 1, "per_node": 8},
        "waiting: 8 GPUs free, 8 needed: 8 together on one node",
    ),
    (
        WaitingCode.WHOLE_NODES,
        {"free": 9, "needed": 8, "nodes": 2, "per_node": 4, "never": True},
        "waiting: 9 GPUs free, 8 needed: 4 together on each of 2 nodes; "
        "no nodes of this cluster can give that: cancel it, or add nodes",
    ),
    (WaitingCode.CPUS, {"free": 9, "needed": 25}, "waiting: 9 CPUs free, 25 needed"),
    (
        WaitingCode.CPUS,
        {"free": 8.0, "needed": 6.0, "per_node": 6.0},
        "waiting: 8 CPUs free, 6 needed: 6 together on one node",
    ),
    (
        WaitingCode.TOO_BIG,
        {"total": 8, "needed": 16, "of": "GPU"},
        "waiting: 16 GPUs needed, the whole cluster has 8: cancel it, or add nodes",
    ),
    (
        WaitingCode.TOO_BIG,
        {"total": 26, "needed": 40, "of": "CPU"},
        "waiting: 40 CPUs needed, the whole cluster has 26: cancel it, or add nodes",
    ),
    (WaitingCode.BEHIND, {"ahead": 1}, "waiting: 1 task comes first"),
    (WaitingCode.BEHIND, {"ahead": 12}, "waiting: 12 tasks come first"),
    (
        WaitingCode.RETRY,
        {"at": "2026-11-21T10:01:00.000Z", "kind": "INSUFFICIENT_RESOURCES"},
        "waiting: it failed for lack of resources, and it is tried again at 2026-11-21T10:01:00.000Z",
    ),
    (
        WaitingCode.RETRY,
        {"at": "2026-11-21T10:01:00.000Z", "kind": "INFRA_ERROR"},
        "waiting: its machine, or a process of Ray, died, and it is tried again at 2026-11-21T10:01:00.000Z",
    ),
    (
        WaitingCode.RETRY,
        {"at": "2026-11-21T10:01:00.000Z"},
        "waiting: its last attempt failed, and it is tried again at 2026-11-21T10:01:00.000Z",
    ),
    (WaitingCode.MOST_RUNNING, {"most": 1}, "waiting: only 1 task may run at once"),
    (WaitingCode.MOST_RUNNING, {"most": 3}, "waiting: only 3 tasks may run at once"),
    (
        WaitingCode.RESOURCES,
        {"names": ["accelerator_type:A100", "nvlink"]},
        "waiting: no node has A100, nvlink free beside its GPUs and CPUs",
    ),
    (
        WaitingCode.ENVIRONMENT_LIMIT,
        {"environment": "lab", "held": 1, "most": 2},
        "waiting: tasks of the environment lab hold 1 GPU and may hold 2",
    ),
    (WaitingCode.USER_LIMIT, {"held": 8, "most": 8}, "waiting: its user holds 8 GPUs and may hold 8"),
    (
        WaitingCode.GPUS,
        {"free": 1, "needed": 8, "starts_by": "2026-11-21T11:00Z", "after_user": "alice", "after_task": "t12"},
        "waiting: 1 GPU free, 8 needed; it starts by 2026-11-21T11:00Z at the latest, when t12 ends",
    ),
    (
        WaitingCode.GPUS,
        {"free": 1, "needed": 8, "starts_by": "2026-11-21T11:00Z", "after_user": "alice"},
        "waiting: 1 GPU free, 8 needed; it starts by 2026-11-21T11:00Z at the latest, when a task of alice ends",
    ),
    (WaitingCode.DISABLED, {}, "waiting: its user is disabled"),
    (
        WaitingCode.RAY,
        {"since": "2026-11-21T10:00:00.000Z"},
        "waiting: Ray has not answered since 2026-11-21T10:00:00.000Z",
    ),
]


@pytest.mark.parametrize(("code", "facts", "sentence"), SENTENCES)
def test_a_reason_is_a_sentence(code: WaitingCode, facts: dict[str, Any], sentence: str) -> None:
    assert in_words(WaitingReason(code, facts)) == sentence


def test_every_reason_has_its_sentence() -> None:
    assert {code for code, _, _ in SENTENCES} == set(WaitingCode)


@pytest.mark.parametrize("code", WaitingCode)
def test_a_reason_that_lacks_its_facts_is_said_all_the_same(code: WaitingCode) -> None:
    assert in_words(WaitingReason(code)).startswith("waiting: ")


@pytest.mark.parametrize(
    ("demand", "sentence"),
    [
        (Demand(1, 8, 24, 1), "waiting: 0 GPUs free, 8 needed"),
        (Demand(1, 0, 4), "waiting: 2 CPUs free, 4 needed"),
        (Demand(3, 8, 24, 1), "waiting: 24 GPUs needed, the whole cluster has 8: cancel it, or add nodes"),
    ],
)
def test_what_the_scheduler_decides_can_be_said(demand: Demand, sentence: str) -> None:
    busy = Node("n1", "10.0.0.1", 8, 0, 26, 2)
    decisions = decide([Queued("t", demand)], [], [busy], now="2026-11-21T10:00:00.000Z", may_start=None)
    assert in_words(decisions.reasons["t"]) == sentence
