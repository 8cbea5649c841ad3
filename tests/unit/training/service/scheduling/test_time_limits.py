"""How long a task may wait inside Ray, and how long it may run."""

from __future__ import annotations

from app.kit.clock import from_text, to_text
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
