"""Types of GPU and custom resources in the gang rule: slots go where these are, and reasons count those nodes alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.training.errors import BadSpec
from app.training.model import Demand, Held, Node, WaitingCode, WaitingReason
from app.training.model.gang import AdmissionRules, decide
from app.training.service.submission_checks import check_resources
from app.training.spec import read_spec
from app.training.workloads import demand_of
from tests.harness.training.gang import NOW, ONE, TWO, ask, claimed, head, node, queued, reason, slots

A100, H100 = {"accelerator_type:A100": 1.0}, {"accelerator_type:H100": 1.0}
MIXED = [node(ONE, others=A100), node(TWO, others=H100), head()]


def typed(demand: Demand, kind: str = "H100") -> Demand:
    return replace(demand, resources=((f"accelerator_type:{kind}", 0.001),))


def linked(demand: Demand, amount: float = 1) -> Demand:
    return replace(demand, resources=(("nvlink", amount),))


def test_a_slot_goes_to_a_node_of_its_type_and_keeps_that_busy() -> None:
    tasks = [queued(typed(slots(1, 8)), "first"), queued(slots(1, 8), "any"), queued(typed(slots(1, 8)), "second")]
    decision = ask(tasks, MIXED)
    assert decision.admitted == ("first", "any")
    assert decision.reasons["second"] == WaitingReason(WaitingCode.GPUS, {"free": 0, "needed": 8})


def test_what_is_free_elsewhere_does_not_count() -> None:
    busy = [node(ONE, others=A100), node(TWO, free=(3, 10), others=H100)]
    assert reason(queued(typed(slots(1, 4))), busy) == WaitingReason(WaitingCode.GPUS, {"free": 3, "needed": 4})
    too_big = WaitingReason(WaitingCode.TOO_BIG, {"total": 8, "needed": 16, "of": "GPU"})
    assert reason(queued(typed(slots(2, 8))), MIXED) == too_big


def test_one_whose_type_no_node_has_is_told_so() -> None:
    why = WaitingReason(WaitingCode.RESOURCES, {"names": ["accelerator_type:L4"], "never": True})
    assert reason(queued(typed(slots(1, 1), "L4")), MIXED) == why


def test_a_custom_resource_is_used_up_by_those_who_take_it() -> None:
    nodes = [node(ONE, others={"nvlink": 2}), node(TWO)]
    tasks = [queued(linked(slots(1, 2)), name) for name in ("a", "b", "c")]
    decision = ask(tasks, nodes)
    assert decision.admitted == ("a", "b")
    assert decision.reasons["c"] == WaitingReason(WaitingCode.RESOURCES, {"names": ["nvlink"]})
    assert ask([queued(linked(slots(3, 2)))], nodes).reasons["t"].facts["never"] is True


def test_promised_ones_are_kept_and_claimed_ones_are_not_counted_twice() -> None:
    task = queued(linked(slots(1, 2)))
    promised = Held("held", linked(slots(1, 2)))
    assert reason(task, [node(ONE, others={"nvlink": 1})], [promised]) is not None
    assert reason(task, [node(ONE, others={"nvlink": 2})], [promised]) is None
    both = node(ONE, free=(6, 20), others={"nvlink": 2}, free_others={"nvlink": 1})
    assert reason(task, [both], [claimed(linked(slots(1, 2)), ONE)]) is None
    used = node(ONE, free=(6, 20), others={"nvlink": 1}, free_others={})
    assert reason(task, [used], [claimed(linked(slots(1, 2)), ONE)]) is not None


def test_a_script_without_gpus_needs_its_node_as_well() -> None:
    script = Demand(1, 0, 2, claims_by_group=False, resources=(("disk", 1.0),))
    assert reason(queued(script), [node(ONE)]) is not None
    assert reason(queued(script), [node(ONE), node(TWO, 0, 4, others={"disk": 1})]) is None


def test_the_reservation_of_the_head_knows_when_its_resource_is_given_back() -> None:
    """It starts when the holder ends; a later task that would take the resource beyond that waits."""
    nodes = [node(ONE, free=(6, 20), others={"nvlink": 1}, free_others={})]
    held = [claimed(linked(slots(1, 2)), ONE)]
    ends = {"held": datetime(2026, 11, 21, 11, tzinfo=UTC)}
    rules = AdmissionRules(does_backfill=True, ends=ends)
    waiting = [queued(linked(slots(1, 4)), "head"), queued(slots(1, 4), "later")]
    decision = decide(waiting, held, nodes, now=NOW, may_start=None, rules=rules)
    assert decision.reasons["head"].facts["starts_by"] == "2026-11-21T11:00:00.000Z"
    assert decision.admitted == ("later",)


def test_a_task_says_them_by_two_fields() -> None:
    text = b"workload: script\ncode_path: /c\nn_gpus_per_node: 1\naccelerator_type: A100\nresources: {nvlink: 2}\n"
    assert demand_of(read_spec(text)[0]).resources == (("accelerator_type:A100", 0.001), ("nvlink", 2.0))


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ("resources: {GPU: 1}", "is Ray's own"),
        ("resources: {nvlink: 0}", "greater than"),
        ("resources: {'a b': 1}", "pattern"),
        ("accelerator_type: 'A 100'", "pattern"),
    ],
)
def test_what_can_be_none_is_refused(field: str, why: str) -> None:
    with pytest.raises(BadSpec, match=why):
        read_spec(f"workload: script\ncode_path: /c\n{field}\n".encode())


@pytest.mark.parametrize(
    ("demand", "message"),
    [
        (
            typed(slots(1, 1), "L4"),
            "accelerator_type: no node of the cluster has GPUs of type L4; there are A100, H100",
        ),
        (linked(slots(1, 1), 3), "resources: no node {} more than 2 nvlink"),
        (
            replace(slots(1, 1), resources=(("nvlnk", 1),)),
            "resources: no node {} nvlnk; there are nvlink",
        ),
    ],
)
def test_what_no_node_can_ever_give_is_refused_at_submission(demand: Demand, message: str) -> None:
    nodes: list[Node] = [*MIXED, node("d3", others={"nvlink": 2})]
    with pytest.raises(BadSpec) as refused:
        check_resources(demand, nodes, ())
    assert refused.value.message == message.format("of the cluster has")
    check_resources(demand, nodes, [name for name, _ in demand.resources])
    check_resources(demand, (), ())


def test_what_some_node_has_is_taken() -> None:
    check_resources(typed(slots(1, 1)), MIXED, ())
