"""What becomes of an attempt that failed, was lost or could not begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.kit.clock import to_text
from app.training.gateway import Submission
from app.training.model import Demand, FailureKind, State
from app.training.model.failures import QUICK_FAILURES
from app.training.service.views import in_words
from tests.harness.training.scripted_ray import TOO_FEW, Bench, ScriptedRay


@pytest.mark.slow
def test_one_that_lost_the_race_for_gpus_is_tried_again_after_a_minute(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one")
    ray.fail(submission_id, TOO_FEW)
    bench.tick()
    task, (attempt,) = bench.task("one"), bench.attempts("one")
    at = "2026-11-20T12:01:00.000Z"
    assert (task.state, task.next_run_at, task.failure_kind) == (State.PENDING_RESOURCES, at, None)
    assert attempt.failure_kind is FailureKind.INSUFFICIENT_RESOURCES
    assert [detail["at"] for detail in bench.events("one", "RETRY_SCHEDULED")] == [at]
    bench.tick(59)
    assert bench.submitted() == ["one--a01"]
    waiting = bench.task("one").waiting
    assert waiting is not None
    assert waiting.facts == {"at": at, "kind": "INSUFFICIENT_RESOURCES"}
    bench.tick(1)
    assert bench.submitted() == ["one--a01", "one--a02"]
    assert bench.task("one").next_run_at is None
    ray.run("one--a02")
    ray.end("one--a02")
    bench.tick()
    assert bench.state("one") is State.SUCCEEDED
    assert bench.task("one").infra_retries == 1


def test_the_cause_is_found_in_the_log_when_noise_pushed_it_out_of_the_message(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one")
    ray.write(submission_id, f"{TOO_FEW}\n".encode() + b"noise\n" * 200)
    ray.fail(submission_id, "noise\n" * 10)
    bench.tick()
    assert bench.attempts("one")[0].failure_kind is FailureKind.INSUFFICIENT_RESOURCES


def test_lack_of_resources_is_not_retried_for_ever(bench: Bench, ray: ScriptedRay) -> None:
    ray.fail(bench.running("one"), TOO_FEW)
    bench.tick()
    bench.tick(bench.options.retry_interval_s)
    ray.run("one--a02")
    ray.fail("one--a02", TOO_FEW)
    bench.tick(bench.options.retry_most_s)
    task = bench.task("one")
    assert (task.state, task.failure_kind) == (State.FAILED, FailureKind.INSUFFICIENT_RESOURCES)
    assert "less than total desired" in task.error_summary


@pytest.mark.slow
def test_one_that_fails_at_once_again_and_again_ends_and_the_next_goes(bench: Bench, ray: ScriptedRay) -> None:
    """Whatever it says of GPUs: five times there was room for it."""
    bench.add("one")
    bench.add("two")
    for number in range(1, QUICK_FAILURES + 1):
        bench.tick(bench.options.retry_interval_s)
        assert bench.submitted()[-1] == f"one--a{number:02}"
        ray.run(f"one--a{number:02}")
        ray.fail(f"one--a{number:02}", TOO_FEW)
        bench.tick()
    task = bench.task("one")
    assert (task.state, task.failure_kind) == (State.FAILED, FailureKind.INSUFFICIENT_RESOURCES)
    bench.tick()
    assert bench.submitted()[-1] == "two--a01"


@pytest.mark.slow
def test_those_that_waited_in_earnest_for_their_place_are_tried_for_a_day(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    for number in range(1, QUICK_FAILURES + 2):
        bench.tick(bench.options.retry_interval_s)
        ray.run(f"one--a{number:02}")
        bench.tick(901)
        ray.fail(f"one--a{number:02}", TOO_FEW, ended_ms=int(bench.now.timestamp() * 1000))
        bench.tick()
        assert bench.state("one") is State.PENDING_RESOURCES


def test_beside_one_that_is_to_be_tried_again_others_go_that_take_nothing_of_its_room(
    bench: Bench, ray: ScriptedRay
) -> None:
    bench.running("one")
    bench.add("cpus", 0)
    bench.add("gpus", 1)
    ray.fail("one--a01", TOO_FEW)
    bench.tick()
    assert bench.submitted() == ["one--a01", "cpus--a01"]
    assert bench.state("gpus") is State.PENDING_RESOURCES
    bench.tick(bench.options.retry_interval_s)
    assert bench.submitted() == ["one--a01", "cpus--a01", "one--a02"]


def test_a_program_that_counts_no_gpus_does_not_lack_them_whatever_it_prints(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", demand=Demand(1, 1, 1, claims_by_group=False))
    ray.write(submission_id, f"{TOO_FEW}\n".encode())
    ray.fail(submission_id, TOO_FEW)
    bench.tick()
    assert (bench.state("one"), bench.task("one").failure_kind) == (State.FAILED, FailureKind.RUNTIME_ERROR)


def test_a_retry_says_what_it_failed_of_until_it_goes(bench: Bench, ray: ScriptedRay) -> None:
    bench.running("one")
    ray.forget("one--a01")
    bench.tick()
    bench.tick(1)
    waiting, (attempt,) = bench.task("one").waiting, bench.attempts("one")
    assert waiting is not None
    assert "forgotten" in in_words(waiting)
    assert (attempt.failure_kind, attempt.ray_status) == (FailureKind.LOST, "")


def test_a_long_time_in_the_line_or_on_the_cluster_takes_no_retry_away(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one", 16)
    bench.tick()
    ray.sizes["node0"] = 16
    bench.tick(2 * bench.options.retry_most_s)
    ray.run("one--a01")
    bench.tick(2 * bench.options.retry_most_s)
    ray.lose_node("one--a01")
    bench.tick()
    bench.tick(bench.options.retry_interval_s)
    ray.run("one--a02")
    ray.fail("one--a02", TOO_FEW)
    bench.tick()
    assert bench.state("one") is State.PENDING_RESOURCES


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'x'", FailureKind.USER_ERROR),
        ("RuntimeError: the loss is nan", FailureKind.RUNTIME_ERROR),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", FailureKind.OUT_OF_MEMORY),
    ],
)
def test_a_failure_of_the_task_itself_is_final(bench: Bench, ray: ScriptedRay, message: str, kind: FailureKind) -> None:
    submission_id = bench.running("one")
    ray.write(submission_id, f"Traceback (most recent call last):\n{message}\n".encode())
    ray.fail(submission_id, message)
    for _ in range(3):
        bench.tick(100)
    task = bench.task("one")
    assert (task.state, task.failure_kind) == (State.FAILED, kind)
    assert task.error_summary
    assert bench.submitted() == ["one--a01"]


def test_one_whose_node_died_begins_anew_as_often_as_it_may(bench: Bench, ray: ScriptedRay) -> None:
    bench.running("one", infra_retries=1)
    ray.lose_node("one--a01")
    bench.tick()
    assert (bench.state("one"), bench.task("one").infra_retries) == (State.PENDING_RESOURCES, 0)
    bench.tick(60)
    ray.run("one--a02")
    ray.lose_node("one--a02")
    bench.tick()
    assert (bench.state("one"), bench.task("one").failure_kind) == (State.FAILED, FailureKind.INFRA_ERROR)


def test_one_that_ray_has_forgotten_is_lost(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one", infra_retries=0)
    ray.forget(submission_id)
    bench.tick()
    task, (attempt,) = bench.task("one"), bench.attempts("one")
    assert (task.state, attempt.failure_kind) == (State.FAILED, FailureKind.LOST)
    assert "does not know" in task.error_summary
    assert attempt.ended_at == to_text(bench.now)


def test_a_lost_one_that_may_begin_anew_does(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one", infra_retries=1)
    bench.tick()
    ray.forget("one--a01")
    bench.tick()
    bench.tick(60)
    assert bench.submitted() == ["one--a01", "one--a02"]


def test_one_that_ray_lost_before_it_was_known_to_have_it_is_submitted_again_under_its_name(
    bench: Bench, ray: ScriptedRay
) -> None:
    """It cannot be told from one that is still on its way, beside which another name would be a second job."""
    bench.add("one")
    ray.keeps_answer = True
    bench.tick()
    ray.keeps_answer = False
    ray.forget("one--a01")
    bench.tick()
    ray.submit(Submission("one--a01", "train"))  # the first one, late
    assert (bench.state("one"), bench.submitted()) == (State.SUBMITTED, ["one--a01", "one--a01"])
    assert list(ray.jobs) == ["one--a01"]


def test_one_that_somebody_stopped_in_ray_has_failed(bench: Bench, ray: ScriptedRay) -> None:
    ray.stop(bench.running("one"))
    bench.tick()
    assert (bench.state("one"), bench.task("one").failure_kind) == (State.FAILED, FailureKind.CANCELED)


def test_what_ray_refuses_has_failed_by_its_users_fault(bench: Bench, ray: ScriptedRay) -> None:
    ray.refusal = "runtime_env is not valid"
    bench.add("one", 4)
    bench.add("two", 4)
    bench.tick()
    for name in ("one", "two"):
        task = bench.task(name)
        assert (task.state, task.failure_kind) == (State.FAILED, FailureKind.USER_ERROR), name
        assert "runtime_env is not valid" in task.error_summary


def test_paths_are_checked_again_when_a_task_starts(bench: Bench, tmp_path: Path) -> None:
    bench.add("one")
    program = tmp_path / "homes" / "common" / "code" / "digits" / "train.py"
    program.unlink()
    program.symlink_to("/etc/passwd")
    bench.tick()
    assert (bench.state("one"), bench.task("one").failure_kind) == (State.FAILED, FailureKind.USER_ERROR)
    assert bench.submitted() == []


def test_while_the_storage_of_the_homes_is_away_no_task_fails_for_want_of_its_files(
    bench: Bench, tmp_path: Path
) -> None:
    bench.add("one")
    (tmp_path / "homes").rename(tmp_path / "away")
    (tmp_path / "homes").mkdir()  # where it is to be mounted
    bench.tick()
    assert (bench.state("one"), list((tmp_path / "homes").iterdir())) == (State.SUBMITTING, [])
    (tmp_path / "homes").rmdir()
    (tmp_path / "away").rename(tmp_path / "homes")
    bench.tick(5)
    assert (bench.state("one"), bench.submitted()) == (State.SUBMITTED, ["one--a01"])


def test_a_spec_that_cannot_be_read_any_more_fails_and_halts_nobody(bench: Bench) -> None:
    bench.add("old", 4, spec="workload: alchemy\n")
    bench.add("next", 4)
    bench.tick()
    assert (bench.state("old"), bench.state("next")) == (State.FAILED, State.SUBMITTED)


def test_a_fault_of_ours_in_one_task_does_not_halt_the_others(
    bench: Bench, ray: ScriptedRay, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("bad", "good"):
        bench.add(name, 4)
    submit = ray.submit

    def fail_for_one(submission: object) -> None:
        if getattr(submission, "submission_id", "") == "bad--a01":
            raise ZeroDivisionError
        submit(submission)  # type: ignore[arg-type]

    monkeypatch.setattr(ray, "submit", fail_for_one)
    bench.tick()
    assert (bench.state("bad"), bench.state("good")) == (State.SUBMITTING, State.SUBMITTED)
    assert "cannot be looked after" in caplog.text
