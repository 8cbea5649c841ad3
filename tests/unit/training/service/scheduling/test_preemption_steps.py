"""A running task that gives way: asked, let run on to its next checkpoint, stopped, and put back into the queue."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.kit.sql import Database
from app.training.model import FailureKind, Priority, State, Workload
from app.training.model.queue_order import QueuePolicy
from app.training.service.checkpoints import LATEST_FILE
from tests.harness.training.scripted_ray import PPO, SPEC, USER, Bench, ScriptedRay

GRACE_S = 300


@pytest.fixture
def bench(database: Database, tmp_path: Path, ray: ScriptedRay) -> Bench:
    return Bench(
        database,
        tmp_path / "homes",
        ray,
        queue=QueuePolicy.PRIORITY,
        preempted=(Priority.LOW,),
        preemption_grace_s=GRACE_S,
    )


def begin_long(bench: Bench, **fields: object) -> str:
    """A task of low priority that holds all GPUs."""
    given = {"priority": Priority.LOW, "is_preemptible": True, "workload": Workload.PPO, "spec": PPO, **fields}
    submission_id = bench.running("long", **given)
    bench.ray.claim(submission_id, ("node0", 8))
    bench.tick(1)
    return submission_id


def write_checkpoint(bench: Bench) -> None:
    """At this moment of the test's clock."""
    folder = bench.root / "users" / USER / "jobs" / "long" / "checkpoints"
    (folder / "global_step_5").mkdir(parents=True, exist_ok=True)
    latest = folder / LATEST_FILE
    latest.write_text("5")
    os.utime(latest, (bench.now.timestamp(), bench.now.timestamp()))


def test_it_runs_on_to_its_next_checkpoint_and_then_goes_back_into_the_queue(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = begin_long(bench)
    write_checkpoint(bench)
    bench.add("urgent", priority=Priority.HIGH)
    bench.tick(5)
    waiting = bench.task("urgent").waiting
    assert waiting is not None and waiting.facts["giving_way"] == 1
    assert bench.attempts("long")[0].preempt_asked_at is not None
    bench.tick(GRACE_S - 100)
    assert ("stop", submission_id) not in ray.calls
    write_checkpoint(bench)
    bench.tick(5)
    bench.tick(1)
    assert ("stop", submission_id) in ray.calls
    task, [attempt] = bench.task("long"), bench.attempts("long")
    assert (task.state, attempt.failure_kind) == (State.PENDING_RESOURCES, FailureKind.PREEMPTED)
    assert task.infra_retries == 1, "it costs none"
    assert bench.submitted() == [submission_id, "urgent--a01"]
    ray.run("urgent--a01")
    ray.end("urgent--a01")
    bench.tick(5)
    bench.tick(1)
    assert bench.submitted()[-1] == "long--a02"
    kinds = [kind for kind in ("PREEMPTION_ASKED", "RETRY_SCHEDULED") if bench.events("long", kind)]
    assert kinds == ["PREEMPTION_ASKED", "RETRY_SCHEDULED"]


def test_one_that_writes_no_checkpoint_is_stopped_when_its_grace_is_over(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = begin_long(bench)
    bench.add("urgent", priority=Priority.NORMAL)
    bench.tick(5)
    bench.tick(GRACE_S + 1)
    assert ("stop", submission_id) in ray.calls


def test_a_script_has_no_checkpoint_to_wait_for(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = begin_long(bench, workload=Workload.SCRIPT, spec=SPEC)
    bench.add("urgent", priority=Priority.HIGH)
    bench.tick(5)
    bench.tick(1)
    assert ("stop", submission_id) in ray.calls


@pytest.mark.parametrize("fields", [{"is_preemptible": False}, {"priority": Priority.NORMAL}])
def test_one_that_may_not_be_stopped_is_not(bench: Bench, ray: ScriptedRay, fields: dict[str, object]) -> None:
    begin_long(bench, **fields)
    bench.add("urgent", priority=Priority.HIGH)
    bench.tick(5)
    bench.tick(GRACE_S + 1)
    assert bench.state("long") is State.RUNNING and bench.attempts("long")[0].preempt_asked_at is None


def test_what_is_needed_no_more_is_withdrawn(bench: Bench, ray: ScriptedRay) -> None:
    begin_long(bench)
    bench.add("urgent", priority=Priority.HIGH)
    bench.tick(5)
    bench.cancel("urgent")
    bench.tick(5)
    assert bench.attempts("long")[0].preempt_asked_at is None
    bench.tick(GRACE_S + 1)
    assert bench.state("long") is State.RUNNING
    assert bench.events("long", "PREEMPTION_WITHDRAWN")


def test_a_new_scheduler_goes_on_where_the_last_one_was(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = begin_long(bench)
    bench.add("urgent", priority=Priority.HIGH)
    bench.tick(5)
    bench.restart()
    bench.tick(GRACE_S + 1)
    assert ("stop", submission_id) in ray.calls
