"""How tasks and nodes look: where time went, whose each GPU is, what the form of a new task means."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.kit.clock import to_text
from app.training.model import Attempt, Demand, FailureKind, Node, State, Task, TaskEvent, Workload
from app.training.pages import cluster, new_form, view_models
from app.training.pages.cluster import GpuOwner
from app.training.pages.view_models import Step
from app.training.service import ClusterView, Holder
from app.training.spec import write_spec

BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)
S = State


def at(seconds: float) -> str:
    return to_text(BEGIN + timedelta(seconds=seconds))


def task(state: State, **fields: Any) -> Task:
    demand = Demand(1, 8, 24)
    return Task(
        "t",
        "alice",
        Workload.PPO,
        "",
        demand,
        seq=1,
        state=state,
        version=1,
        created_at=at(0),
        updated_at=at(0),
        waited_since=at(0),
        latest_attempt_no=2,
        **fields,
    )


def led(*steps: tuple[State, float]) -> list[TaskEvent]:
    before, events = S.QUEUED, [TaskEvent(1, "t", at(0), "CREATED", {"by": "alice"})]
    for number, (state, seconds) in enumerate(steps, 2):
        events.append(TaskEvent(number, "t", at(seconds), "STATE", {"from": before.value, "to": state.value}))
        before = state
    return events


RETRIED = led(
    (S.PENDING_RESOURCES, 2),
    (S.SUBMITTING, 10),
    (S.SUBMITTED, 11),
    (S.RUNNING, 13),
    (S.PENDING_RESOURCES, 20),
    (S.SUBMITTING, 80),
    (S.SUBMITTED, 81),
    (S.RUNNING, 83),
)
ATTEMPTS = [
    Attempt("t", 1, "t--a01", at(10), failure_kind=FailureKind.INSUFFICIENT_RESOURCES),
    Attempt("t", 2, "t--a02", at(80)),
]


def test_the_time_of_each_step_is_summed_over_all_attempts() -> None:
    steps = view_models.spans(task(S.RUNNING), RETRIED, BEGIN + timedelta(seconds=100))
    rungs = {rung.step: (rung.seconds, rung.is_now) for rung in view_models.rungs(task(S.RUNNING), steps)}
    assert rungs == {
        Step.QUEUED: (2, False),
        Step.WAITING: (68, False),
        Step.SUBMITTED: (6, False),
        Step.RUNNING: (24, True),
        Step.ENDED: (None, False),
    }


def test_each_attempt_has_a_bar_of_its_own_time_coloured_by_its_end() -> None:
    steps = view_models.spans(task(S.RUNNING), RETRIED, BEGIN + timedelta(seconds=100))
    rows = view_models.rows(task(S.RUNNING), ATTEMPTS, steps)
    assert [(row.seconds, row.ending) for row in rows] == [(70, ""), (10, "is-failed"), (20, "")]
    bars = re.findall(r'class="span-running" x="([\d.]+)" y="0" width="([\d.]+)"', rows[2].bar)
    assert bars == [("830.0", "170.0")]


def test_a_task_that_ended_takes_no_more_time() -> None:
    events = led((S.SUBMITTING, 1), (S.SUBMITTED, 2), (S.RUNNING, 4), (S.SUCCEEDED, 30))
    ended = task(S.SUCCEEDED, ended_at=at(30))
    steps = view_models.spans(ended, events, BEGIN + timedelta(days=1))
    assert sum(span.seconds for span in steps) == 30 == view_models.took_s(ended, BEGIN + timedelta(days=1))
    assert view_models.rungs(ended, steps)[-1].is_now


def test_clocks_that_disagree_make_no_negative_time() -> None:
    steps = view_models.spans(task(S.RUNNING), RETRIED, BEGIN)
    assert min(span.seconds for span in steps) == 0


NODE = Node("n", "10.0.0.1", 8, 2.5, 96, 40)


def view(*holders: Holder, node: Node = NODE) -> ClusterView:
    return ClusterView(at(0), (node,), holders)


def holder(user: str, gpus: float) -> Holder:
    return Holder(f"task-of-{user}", user, "ppo", "RUNNING", 8, {"n": gpus})


def test_each_gpu_is_mine_or_anothers_or_nobodys_or_free() -> None:
    (drawn,) = cluster.nodes_of(view(holder("bob", 3), holder("alice", 2)), "alice")
    assert [(share.whose, share.gpus, share.user) for share in drawn.shares] == [
        (GpuOwner.MINE, 2, "alice"),
        (GpuOwner.OTHERS, 3, "bob"),
        (GpuOwner.OUTSIDE, 0.5, ""),
        (GpuOwner.FREE, 2.5, ""),
    ]
    assert re.findall(r"gpu gpu-(\w+)", drawn.bar) == ["mine"] * 2 + ["others"] * 3 + ["outside"] + ["free"] * 3


def test_what_a_task_holds_and_ray_has_freed_already_is_drawn_once() -> None:
    (drawn,) = cluster.nodes_of(view(holder("alice", 6), node=replace(NODE, free_gpus=8)), "alice")
    assert [(share.whose, share.gpus) for share in drawn.shares] == [(GpuOwner.MINE, 6), (GpuOwner.FREE, 2)]


def test_a_node_of_very_many_gpus_is_drawn_in_pieces_and_one_of_none_not_at_all() -> None:
    many, none = replace(NODE, total_gpus=640, free_gpus=600), replace(NODE, total_gpus=0, free_gpus=0)
    assert cluster.nodes_of(view(node=many), "alice")[0].bar.count("<rect") == 2
    assert cluster.nodes_of(view(node=none), "alice")[0].bar.count("<rect") == 0


VALUES = {
    **new_form.empty_values(Workload.PPO),
    "name": "n: [",
    "model_id": "a/b",
    "train_file": "/private/common/a",
    "val_file": "/private/common/b",
    "cpus_per_gpu": "2.5",
    "save_freq": "-1",
    "backfill": "1",
    "overrides": "critic.optim.lr: 1e-6\ndata.x: '007'\n",
}


def test_a_form_becomes_a_spec_and_the_spec_the_same_form() -> None:
    spec, text, problems = new_form.spec_of(VALUES)
    assert spec is not None and problems == {}
    assert (spec.name, spec.cpus_per_gpu, spec.save_freq, spec.backfill) == ("n: [", 2.5, -1, True)
    assert spec.overrides == {"critic.optim.lr": 1e-6, "data.x": "007"}
    again = new_form.values_of(spec)
    assert again is not None and new_form.spec_of(again) == (spec, text, {}) and text == write_spec(spec)


def test_fields_of_another_workload_do_not_count() -> None:
    spec, _, problems = new_form.spec_of({**VALUES, "args": "--a\n\n --b \n", "program": "x.py"})
    assert spec is not None and problems == {} and spec.args == []
    script = {**VALUES, "workload": "script", "code_path": "/private/common/code/a", "args": "--a\n\n --b \n"}
    spec, _, problems = new_form.spec_of({**script, "n_gpus_per_node": "0"})
    assert spec is not None and problems == {} and spec.args == ["--a", "--b"] and spec.overrides == {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"nnodes": "1.5"}, "nnodes"),
        ({"nnodes": "9" * 40}, "nnodes"),
        ({"cpus_per_gpu": "nan"}, "cpus_per_gpu"),
        ({"convert": "1"}, "convert.images"),
        ({"convert": "1", "convert.images": "a", "convert.model": "a.txt"}, "convert.model"),
        ({"overrides": "just a text"}, "overrides"),
        ({"overrides": "trainer.x: 1"}, "overrides"),
        ({"model_path": "/private/common/m"}, "model_path"),
    ],
)
def test_a_problem_names_its_field(change: dict[str, str], field: str) -> None:
    spec, _, problems = new_form.spec_of({**VALUES, **change})
    assert spec is None and list(problems) == [field]
