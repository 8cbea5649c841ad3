"""Tasks that are canceled, and what was let go while Ray was silent."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from app.kit.clock import to_text
from app.training import store
from app.training.gateway import RayStatus, Submission
from app.training.model import RELEASE_AFTER, Event, FailureKind, State, Task
from app.training.service.scheduling.ray_sync import ARRIVAL_S
from tests.harness.training.scripted_ray import TOO_FEW, Bench, ScriptedRay


def test_a_running_task_is_stopped(bench: Bench) -> None:
    bench.running("one")
    bench.cancel("one")
    bench.tick()
    assert bench.state("one") is State.CANCELING
    bench.tick()
    task, (attempt,) = bench.task("one"), bench.attempts("one")
    assert (task.state, attempt.ray_status, attempt.failure_kind) == (
        State.CANCELED,
        "STOPPED",
        FailureKind.CANCELED,
    )


def test_a_pending_one_is_told_to_stop_until_it_has(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    bench.tick()
    bench.cancel("one")
    for _ in range(3):
        bench.tick(5)
    assert bench.state("one") is State.CANCELING
    assert ray.calls.count(("stop", "one--a01")) == 3
    ray.run("one--a01")
    bench.tick(5)
    bench.tick(5)
    assert bench.state("one") is State.CANCELED


def test_a_canceled_one_that_failed_first_is_canceled_and_one_that_succeeded_has_succeeded(
    bench: Bench, ray: ScriptedRay
) -> None:
    for name in ("failed", "succeeded"):
        bench.running(name, 4)
        bench.cancel(name)
    ray.fail("failed--a01", TOO_FEW)
    ray.end("succeeded--a01")
    bench.tick()
    assert (bench.state("failed"), bench.state("succeeded")) == (State.CANCELED, State.SUCCEEDED)
    assert bench.attempts("succeeded")[0].failure_kind is None


def test_a_canceled_one_that_ray_does_not_know_is_canceled_at_once(bench: Bench, ray: ScriptedRay) -> None:
    ray.forget(bench.running("one"))
    bench.cancel("one")
    bench.tick()
    assert bench.state("one") is State.CANCELED


def test_a_task_that_is_canceled_before_ray_heard_of_it_never_gets_there(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    ray.away = {"submit"}
    bench.tick()
    assert bench.state("one") is State.SUBMITTING
    bench.cancel("one")
    ray.away = set()
    bench.tick()
    bench.tick(ARRIVAL_S)
    assert (bench.state("one"), bench.submitted()) == (State.CANCELED, [])


def test_a_job_that_ray_was_slow_to_take_is_stopped_though_its_task_was_canceled_before(
    bench: Bench, ray: ScriptedRay
) -> None:
    bench.add("one")
    ray.away = {"submit"}
    bench.tick()
    bench.cancel("one")
    ray.away = set()
    bench.tick(ARRIVAL_S - 1)
    assert bench.state("one") is State.CANCELING
    ray.submit(Submission("one--a01", "train"))
    ray.run("one--a01")
    bench.tick(5)
    assert ray.jobs["one--a01"].job.status is RayStatus.STOPPED
    bench.tick()
    assert bench.state("one") is State.CANCELED


def released(bench: Bench, ray: ScriptedRay, name: str = "one") -> str:
    """A task that runs, and that was cancelled and let go while nothing answers. Returns the id of its submission."""
    submission_id = bench.running(name, 4)
    ray.away = {"*"}
    bench.cancel(name)
    bench.tick(RELEASE_AFTER.total_seconds())
    assert bench.state(name) is State.CANCELING
    bench.release(name)
    bench.tick(5)
    assert bench.state(name) is State.CANCELED
    return submission_id


def test_what_was_let_go_is_stopped_when_ray_answers_again_and_then_says_so(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = released(bench, ray)
    ray.write(submission_id, b"still at it\n")
    ray.away = set()
    bench.tick(5)
    assert ray.jobs[submission_id].job.status is RayStatus.STOPPED
    assert "may still run" in bench.task("one").error_summary
    bench.tick(1)
    task, (attempt,) = bench.task("one"), bench.attempts("one")
    assert (task.state, attempt.ray_status, attempt.failure_kind) == (State.CANCELED, "STOPPED", FailureKind.CANCELED)
    assert attempt.ended_at == to_text(bench.now)
    assert "may still run" not in task.error_summary and to_text(bench.now) in task.error_summary
    assert bench.events("one", "RELEASED_ENDED") == [{"attempt_no": 1, "ray_status": "STOPPED"}]
    assert bench.log(submission_id) == b"still at it\n"
    calls = len(ray.calls)
    bench.tick(5)
    assert [call for call in ray.calls[calls:] if call[1] == submission_id] == []


def test_what_was_let_go_keeps_its_gpus_until_it_has_ended(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = released(bench, ray)
    ray.claim(submission_id, ("node0", 4))
    bench.add("next", 8)
    ray.away = {"stop"}
    bench.tick(5)
    assert bench.submitted() == [submission_id]
    ray.away = set()
    bench.tick(5)
    view = bench.shown.view
    assert view is not None
    assert [(holder.task_id, holder.state) for holder in view.holders] == [("one", "CANCELED")]
    assert bench.submitted() == [submission_id]
    bench.tick(1)
    assert bench.submitted() == [submission_id, "next--a01"]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("is_released", [False, True])
def test_a_job_that_a_silent_ray_takes_only_when_it_answers_again_is_stopped_too(
    bench: Bench, ray: ScriptedRay, is_released: bool, is_restarted: bool
) -> None:
    """It was on its way all the time; what Ray says of it in its first moments is not the last word."""
    bench.add("one")
    ray.away = {"submit"}
    bench.tick()
    ray.away = {"*"}
    bench.cancel("one")
    bench.tick(RELEASE_AFTER.total_seconds())
    if is_released:
        bench.release("one")
    if is_restarted:
        bench.restart()
    ray.away = set()
    bench.tick(5)
    ray.submit(Submission("one--a01", "train"))
    ray.run("one--a01")
    bench.tick(5)
    assert ray.jobs["one--a01"].job.status is RayStatus.STOPPED
    bench.tick(1)
    assert (bench.state("one"), bench.attempts("one")[0].ray_status) == (State.CANCELED, "STOPPED")


@pytest.mark.slow
def test_what_was_let_go_and_ended_meanwhile_or_was_forgotten_is_told(bench: Bench, ray: ScriptedRay) -> None:
    done, lost = released(bench, ray, "done"), ""
    ray.away = set()
    ray.end(done)
    bench.tick(5)
    task, (attempt,) = bench.task("done"), bench.attempts("done")
    assert (task.state, attempt.ray_status, attempt.failure_kind) == (State.CANCELED, "SUCCEEDED", None)
    assert "SUCCEEDED" in task.error_summary
    assert bench.succeeded == []
    lost = released(bench, ray, "lost")
    ray.away = set()
    ray.forget(lost)
    bench.tick(5)
    task, (attempt,) = bench.task("lost"), bench.attempts("lost")
    assert (task.state, attempt.ray_status, attempt.failure_kind) == (State.CANCELED, "", FailureKind.CANCELED)
    assert attempt.ended_at == to_text(bench.now)
    assert "may still run" not in task.error_summary


def test_a_cancel_in_the_moment_of_the_admission_leaves_no_attempt(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add("one")
    get_task = store.get_task

    def cancel_after(conn: sa.Connection, task_id: str) -> Task | None:
        """As another connection may on PostgreSQL, after the read and before the write."""
        task = get_task(conn, task_id)
        if task is not None and task.is_waiting:
            store.apply(conn, task, Event.CANCEL, to_text(bench.now))
        return task

    monkeypatch.setattr(store, "get_task", cancel_after)
    bench.tick()
    assert (bench.state("one"), bench.attempts("one"), bench.submitted()) == (State.CANCELED, [], [])


def test_a_cancel_in_the_moment_before_the_submission_keeps_it_from_ray(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add("one")
    begun = bench.homes.folders.begun

    def cancel_first(*arguments: object, **named: object) -> None:
        bench.cancel("one")
        begun(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(bench.homes.folders, "begun", cancel_first)
    bench.tick()
    bench.tick()
    assert (bench.state("one"), bench.submitted()) == (State.CANCELED, [])


def test_a_cancel_while_ray_is_being_told_stops_it(
    bench: Bench, ray: ScriptedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add("one")
    submit = ray.submit

    def cancel_meanwhile(submission: object) -> None:
        submit(submission)  # type: ignore[arg-type]
        ray.run("one--a01")
        bench.cancel("one")

    monkeypatch.setattr(ray, "submit", cancel_meanwhile)
    bench.tick()
    assert ray.jobs["one--a01"].job.status is RayStatus.STOPPED
    bench.tick()
    assert bench.state("one") is State.CANCELED


def test_a_job_that_a_halted_leader_submits_after_its_task_has_ended_is_stopped(
    bench: Bench, ray: ScriptedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.add("one")
    submit = ray.submit

    def halt_first(submission: object) -> None:
        monkeypatch.setattr(ray, "submit", submit)
        bench.cancel("one")
        other = Bench(bench.database, bench.root, ray)
        other.tick(ARRIVAL_S)
        assert other.state("one") is State.CANCELED
        submit(submission)  # type: ignore[arg-type]
        ray.run("one--a01")

    monkeypatch.setattr(ray, "submit", halt_first)
    bench.tick()
    assert ray.jobs["one--a01"].job.status is RayStatus.STOPPED
    assert bench.state("one") is State.CANCELED


def test_the_room_of_a_canceled_task_is_kept_until_it_has_stopped(bench: Bench) -> None:
    bench.add("one")
    bench.tick()
    bench.cancel("one")
    bench.add("two")
    bench.tick()
    assert bench.submitted() == ["one--a01"]
