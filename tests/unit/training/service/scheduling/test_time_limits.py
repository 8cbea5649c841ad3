"""How long a task may wait inside Ray, and how long it may run."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from app.kit.clock import from_text, to_text
from app.kit.sql import Database
from app.training.gateway import RayStatus
from app.training.model import FailureKind, State
from tests.harness.training.scripted_ray import Bench, ScriptedRay


def test_one_that_waits_inside_ray_for_too_long_is_stopped_and_tried_again(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", max_wait_s=100)
    ray.claim(submission_id)
    bench.tick()
    assert bench.attempts("one")[0].placement_pending_since == to_text(bench.now)
    bench.tick(99)
    assert bench.state("one") is State.RUNNING
    bench.tick(1)
    assert ray.jobs[submission_id].job.status is RayStatus.STOPPED
    bench.tick()
    task, (attempt,) = bench.task("one"), bench.attempts("one")
    assert (task.state, attempt.failure_kind) == (State.PENDING_RESOURCES, FailureKind.INSUFFICIENT_RESOURCES)
    assert "100 seconds" in attempt.message
    assert attempt.placement_pending_since is None


def test_a_stop_of_one_that_waits_too_long_is_repeated_until_ray_has_heard_it(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", max_wait_s=1)
    ray.claim(submission_id)
    bench.tick()
    ray.away = {"stop"}
    bench.tick(1)
    ray.away = set()
    bench.restart()
    bench.tick(1)
    assert ray.jobs[submission_id].job.status is RayStatus.STOPPED
    bench.tick(1)
    assert bench.attempts("one")[0].failure_kind is FailureKind.INSUFFICIENT_RESOURCES


def test_one_whose_group_was_placed_has_not_waited(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", max_wait_s=100)
    ray.claim(submission_id)
    bench.tick()
    ray.claim(submission_id, ("node0", 8))
    bench.tick(50)
    assert bench.attempts("one")[0].placement_pending_since is None
    ray.claim(submission_id)
    bench.tick(50)
    assert bench.attempts("one")[0].placement_pending_since == to_text(bench.now)
    bench.tick(99)
    assert bench.state("one") is State.RUNNING


def test_a_task_that_says_nothing_may_wait_a_quarter_of_an_hour_inside_ray(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one")
    ray.claim(submission_id)
    bench.tick()
    bench.tick(899)
    assert ray.jobs[submission_id].job.status is RayStatus.RUNNING
    bench.tick(1)
    assert ray.jobs[submission_id].job.status is RayStatus.STOPPED


def test_one_that_succeeds_while_it_is_being_stopped_has_succeeded(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", max_wait_s=1)
    ray.claim(submission_id)
    bench.tick()
    ray.stop = lambda submission_id: None  # type: ignore[method-assign]
    bench.tick(1)
    ray.end(submission_id)
    bench.tick()
    (attempt,) = bench.attempts("one")
    assert (bench.state("one"), attempt.failure_kind, attempt.message) == (State.SUCCEEDED, None, "")


def test_one_that_ran_for_as_long_as_it_may_is_stopped_and_not_tried_again(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", max_run_s=600)
    began = from_text(bench.attempts("one")[0].created_at)  # this cluster's clock says 1970
    bench.tick(599 - (bench.now - began).total_seconds())
    assert ray.jobs[submission_id].job.status is RayStatus.RUNNING
    bench.tick(1)
    assert ray.jobs[submission_id].job.status is RayStatus.STOPPED
    bench.tick()
    task, (attempt,) = bench.task("one"), bench.attempts("one")
    assert (task.state, task.failure_kind) == (State.FAILED, FailureKind.TIME_LIMIT)
    assert "600 seconds" in attempt.message


def test_a_stop_at_the_time_limit_is_repeated_until_ray_has_heard_it(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", max_run_s=60)
    ray.away = {"stop"}
    bench.tick(100)
    ray.away = set()
    bench.restart()
    bench.tick(1)
    assert ray.jobs[submission_id].job.status is RayStatus.STOPPED


def silent(bench: Bench, submission_id: str, seconds: float) -> RayStatus:
    """What Ray says of a job after so many seconds of the scheduler looking each minute."""
    for _ in range(int(seconds // 60)):
        bench.tick(60)
    return bench.ray.jobs[submission_id].job.status


@pytest.mark.slow
def test_one_that_writes_nothing_for_too_long_is_stopped_and_not_tried_again(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", max_idle_s=600)
    assert silent(bench, submission_id, 540) is RayStatus.RUNNING
    ray.write(submission_id, b"step 1\n")
    assert silent(bench, submission_id, 600) is RayStatus.RUNNING  # counted from when the scheduler saw that line
    assert silent(bench, submission_id, 60) is RayStatus.STOPPED
    bench.tick()
    task, (attempt,) = bench.task("one"), bench.attempts("one")
    assert (task.state, task.failure_kind) == (State.FAILED, FailureKind.IDLE_LIMIT)
    assert "600 seconds" in attempt.message


def test_figures_are_as_good_as_lines_of_the_log(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", max_idle_s=600)
    metrics = bench.folder(submission_id) / "metrics.jsonl"
    metrics.write_text('{"step": 1, "loss": 2}\n')
    os.utime(metrics, (when := (bench.now + timedelta(seconds=500)).timestamp(), when))
    assert silent(bench, submission_id, 1080) is RayStatus.RUNNING
    assert silent(bench, submission_id, 60) is RayStatus.STOPPED


def test_what_waits_inside_ray_is_not_silent(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", max_idle_s=120, max_wait_s=3600)
    ray.claim(submission_id)
    assert silent(bench, submission_id, 1200) is RayStatus.RUNNING
    ray.claim(submission_id, ("node0", 8))
    assert silent(bench, submission_id, 120) is RayStatus.RUNNING
    assert silent(bench, submission_id, 60) is RayStatus.STOPPED


@pytest.mark.slow
def test_while_nobody_looked_a_task_may_have_spoken(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", max_idle_s=120)
    ray.away = {"log_tail"}
    assert silent(bench, submission_id, 1200) is RayStatus.RUNNING
    ray.away = set()
    ray.write(submission_id, b"step 1\n")
    bench.restart()
    assert silent(bench, submission_id, 120) is RayStatus.RUNNING


def test_the_installation_says_how_long_a_task_may_be_silent_that_does_not(database: Database, tmp_path: Path) -> None:
    ray = ScriptedRay(8, 8)
    bench = Bench(database, tmp_path / "homes", ray, max_idle_s=120)
    usual, own = bench.running("usual"), bench.running("own", max_idle_s=3600)
    silent(bench, usual, 240)
    assert (ray.jobs[usual].job.status, ray.jobs[own].job.status) == (RayStatus.STOPPED, RayStatus.RUNNING)
