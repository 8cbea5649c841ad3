"""The scheduler's tick against a scripted Ray: every transition of the state machine, every fault between two steps."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.kit.clock import from_text, to_text
from app.kit.sql import Database
from app.training import store
from app.training.gateway import PlacementGroup, RayStatus, Submission
from app.training.model import RELEASE_AFTER, Demand, Event, FailureKind, Priority, State, Task, WaitingCode
from app.training.model.failures import QUICK_FAILURES
from app.training.model.queue_order import QueuePolicy
from app.training.model.waiting_reason import in_words
from app.training.service.scheduling.ray_sync import ARRIVAL_S
from tests.harness.training.scripted_ray import BEGIN, SPEC, TOO_FEW, Bench, ScriptedRay


# --- the way of a task ------------------------------------------------------------------------------
def test_a_task_goes_from_the_line_to_its_end(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    bench.tick()
    assert (bench.state("one"), bench.submitted()) == (State.SUBMITTED, ["one--a01"])
    ray.run("one--a01", node="node0")
    bench.tick()
    assert bench.state("one") is State.RUNNING
    ray.end("one--a01", exit_code=0, ended_ms=int(BEGIN.timestamp() * 1000))
    bench.tick(7)
    task, (attempt,) = bench.task("one"), bench.attempts("one")
    assert (task.state, task.ended_at) == (State.SUCCEEDED, to_text(bench.now))
    assert (attempt.ray_status, attempt.exit_code, attempt.driver_node_id) == ("SUCCEEDED", 0, "node0")
    assert (attempt.ray_job_id, attempt.ended_at) == ("00000001", to_text(BEGIN))
    assert [detail["to"] for detail in bench.events("one", "STATE")] == [
        "SUBMITTING",
        "SUBMITTED",
        "RUNNING",
        "SUCCEEDED",
    ]
    assert [detail["status"] for detail in bench.events("one", "RAY_STATUS")] == ["PENDING", "RUNNING", "SUCCEEDED"][1:]


def test_a_tick_in_which_nothing_happens_writes_nothing(bench: Bench) -> None:
    bench.running("one")
    version = bench.task("one").version
    bench.tick(5)
    assert bench.task("one").version == version
    assert len(bench.events("one", "RAY_STATUS")) == 1


def test_what_is_submitted_is_what_the_workload_says(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    bench.tick()
    (submission,) = ray.submissions
    assert submission.metadata["task_id"] == "one"
    assert submission.resources == {"worker_node": 1}
    payload = json.loads(bench.attempts("one")[0].submit_payload)
    assert payload["entrypoint"] == submission.entrypoint
    assert json.loads((bench.folder("one--a01") / "submit.json").read_text()) == payload


def test_the_spec_lies_in_the_folder_byte_for_byte(bench: Bench) -> None:
    spec = f"# 訓練\r\n{SPEC}name:   two  \n"
    bench.add("one", spec=spec)
    bench.tick()
    assert (bench.folder("one--a01") / "jobspec.yaml").read_bytes() == spec.encode()


def test_the_end_of_a_job_is_never_in_the_future(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one")
    ray.end(submission_id, ended_ms=int(BEGIN.timestamp() * 1000) + 3600_000)
    bench.tick(5)
    assert bench.attempts("one")[0].ended_at == to_text(bench.now)


def test_a_task_that_ended_between_two_ticks_needs_no_running_state(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    bench.tick()
    ray.run("one--a01")
    ray.end("one--a01")
    bench.tick()
    assert bench.state("one") is State.SUCCEEDED


def test_only_one_that_asks_for_conversion_is_reported_when_it_succeeds(bench: Bench, ray: ScriptedRay) -> None:
    asks = f"{SPEC}convert:\n  images: images.zip\n"
    for name, spec in (("plain", SPEC), ("asks", asks), ("fails", asks)):
        bench.add(name, 1, spec=spec)
    bench.tick()
    for name in ("plain", "asks", "fails"):
        ray.run(f"{name}--a01")
    ray.end("plain--a01")
    ray.end("asks--a01")
    ray.fail("fails--a01", "RuntimeError: no")
    bench.tick()
    assert bench.succeeded == ["asks"]


def test_retention_counts_from_the_end_of_the_job(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one")
    (times,) = bench.homes.folders.times("alice", [submission_id])
    assert times.ended_at is None
    ray.end(submission_id, ended_ms=int(BEGIN.timestamp() * 1000))
    bench.tick(100)
    (times,) = bench.homes.folders.times("alice", [submission_id])
    assert times.ended_at == BEGIN


# --- the line ---------------------------------------------------------------------------------------
def test_who_finds_no_room_waits_and_is_told_why_and_ray_never_hears_of_it(bench: Bench, ray: ScriptedRay) -> None:
    ray.claim(bench.running("first"), ("node0", 8))
    bench.add("second")
    bench.tick()
    task = bench.task("second")
    assert task.state is State.PENDING_RESOURCES
    assert task.waiting is not None
    assert (task.waiting.code, task.waiting.facts["free"]) == (WaitingCode.GPUS, 0)
    assert bench.submitted() == ["first--a01"]


def test_what_a_task_leaves_the_next_gets_in_the_same_tick(bench: Bench, ray: ScriptedRay) -> None:
    first = bench.running("first")
    ray.claim(first, ("node0", 8))
    bench.add("second")
    bench.tick()
    ray.end(first)
    bench.tick()
    assert (bench.state("first"), bench.state("second")) == (State.SUCCEEDED, State.SUBMITTED)
    assert bench.task("second").waiting is None


def test_what_is_submitted_and_has_claimed_nothing_yet_has_its_room_kept(bench: Bench) -> None:
    bench.running("first")
    bench.add("second")
    for _ in range(3):
        bench.tick(5)
    assert bench.submitted() == ["first--a01"]


def test_a_group_that_was_placed_is_not_counted_twice(bench: Bench, ray: ScriptedRay) -> None:
    ray.claim(bench.running("first", 4), ("node0", 4))
    bench.add("second", 4)
    bench.tick()
    assert bench.state("second") is State.SUBMITTED


def test_a_group_of_nobody_knows_whom_belongs_to_no_task(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("first", 4)
    ray.jobs[submission_id].groups = [PlacementGroup("", False)]
    (attempt,) = bench.attempts("first")
    with bench.database.write() as conn:
        store.change_attempt(conn, attempt, ray_job_id="")
    ray.jobs[submission_id].job = replace(ray.jobs[submission_id].job, ray_job_id="")
    bench.tick()
    assert bench.attempts("first")[0].placement_pending_since is None


def test_what_ray_gave_a_driver_is_not_counted_twice(bench: Bench, ray: ScriptedRay) -> None:
    demand = Demand(1, 4, 1, claims_by_group=False)
    bench.running("first", demand=demand)
    ray.taken["node0"] = 4
    bench.add("second", demand=demand)
    bench.tick()
    assert bench.state("second") is State.SUBMITTED


def test_groups_are_looked_at_before_nodes_so_that_a_claim_in_between_counts_twice(
    bench: Bench, ray: ScriptedRay
) -> None:
    first = bench.running("first", 4)
    bench.add("second", 8)
    groups = ray.placement_groups()
    ray.claim(first, ("node0", 4))
    ray.placement_groups = lambda: groups  # type: ignore[method-assign]
    bench.tick()
    assert bench.state("second") is State.PENDING_RESOURCES
    names = [what for what, _ in ray.calls]
    assert names.index("placement_groups") < len(names) - names[::-1].index("nodes")


def test_nobody_overtakes_the_first_of_the_line_also_after_a_restart(bench: Bench, ray: ScriptedRay) -> None:
    holder = bench.running("holder", 4)
    ray.claim(holder, ("node0", 4))
    for name, gpus in (("big", 8), ("small", 1), ("smaller", 1)):
        bench.add(name, gpus)
    for _ in range(3):
        bench.tick(5)
        bench.restart()
    behind = bench.task("smaller").waiting
    assert behind is not None
    assert (behind.code, behind.facts) == (WaitingCode.BEHIND, {}), "a number would have to be written again and again"
    assert bench.submitted() == ["holder--a01"]
    ray.end(holder)
    bench.tick()
    ray.run("big--a01")
    ray.end("big--a01")
    bench.tick()
    assert bench.submitted() == ["holder--a01", "big--a01", "small--a01", "smaller--a01"]


def test_a_task_with_backfill_lets_others_pass(bench: Bench, ray: ScriptedRay) -> None:
    ray.claim(bench.running("holder", 4), ("node0", 4))
    bench.add("big", 8, backfill=True)
    bench.add("small", 1)
    bench.tick()
    assert bench.submitted() == ["holder--a01", "small--a01"]


def test_no_more_tasks_run_than_the_installation_says(database: Database, tmp_path: Path, ray: ScriptedRay) -> None:
    bench = Bench(database, tmp_path / "homes", ray, max_running_tasks=2)
    for name in "abc":
        bench.add(name, 1)
    bench.tick()
    bench.tick(5)
    assert bench.submitted() == ["a--a01", "b--a01"]
    waiting = bench.task("c").waiting
    assert waiting is not None
    assert (waiting.code, waiting.facts) == (WaitingCode.MOST_RUNNING, {"most": 2})


def test_what_a_disabled_user_has_in_the_line_keeps_its_place_and_halts_nobody(bench: Bench, ray: ScriptedRay) -> None:
    running = bench.running("one", 4)
    bench.add("two", 4)
    bench.add("of bob", 4, user="bob")
    bench.disabled = {"alice"}
    bench.tick()
    waiting = bench.task("two").waiting
    assert waiting is not None and waiting.code is WaitingCode.DISABLED
    assert (bench.state("of bob"), bench.state("one")) == (State.SUBMITTED, State.RUNNING)
    bench.disabled = set()
    ray.end(running)
    bench.tick()
    assert bench.state("two") is State.SUBMITTED


def test_a_tick_over_a_long_line_writes_only_what_changed(bench: Bench, database: Database, ray: ScriptedRay) -> None:
    ray.claim(bench.running("holder", 4), ("node0", 4))
    for number in range(1000):
        bench.add(f"t{number}", 8)
    bench.tick()
    assert bench.task("t499").state is State.PENDING_RESOURCES
    assert bench.task("t999").state is State.QUEUED
    bench.tick(5)
    assert bench.task("t999").state is State.PENDING_RESOURCES
    written: list[str] = []

    def note(*arguments: object) -> None:
        text = str(arguments[2])
        if not text.startswith(("SELECT", "BEGIN")):
            written.append(text)

    sa.event.listen(database._engine, "before_cursor_execute", note)
    bench.tick(5)
    assert written == []
    ray.taken["node0"] = 5  # an outsider: one reason changes
    bench.tick(5)
    assert len(written) == 1
    assert written[0].startswith("UPDATE training_tasks SET waiting")


# --- failures and retries ---------------------------------------------------------------------------
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


# --- cancel -----------------------------------------------------------------------------------------
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


# --- what was let go while Ray was silent -----------------------------------------------------------
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


# --- waiting inside Ray -----------------------------------------------------------------------------
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


# --- other orders of the queue -------------------------------------------------------------------------
def bench_with(database: Database, tmp_path: Path, ray: ScriptedRay, **options: object) -> Bench:
    return Bench(database, tmp_path / "ordered", ray, **options)


def test_the_urgent_go_first_where_the_queue_is_by_priority(
    database: Database, tmp_path: Path, ray: ScriptedRay
) -> None:
    bench = bench_with(database, tmp_path, ray, queue=QueuePolicy.PRIORITY)
    bench.add("later", priority=Priority.LOW)
    bench.add("sooner", priority=Priority.HIGH)
    bench.tick()
    assert bench.submitted() == ["sooner--a01"]
    assert bench.shown.view is not None and bench.shown.view.order == ("later",)


def test_who_has_used_the_gpus_lately_comes_after_who_has_not(
    database: Database, tmp_path: Path, ray: ScriptedRay
) -> None:
    bench = bench_with(database, tmp_path, ray, queue=QueuePolicy.FAIR)
    before = bench.running("before")
    bench.now += timedelta(hours=1)
    ray.end(before)
    bench.tick(60)
    bench.add("of alice")
    bench.add("of bob", user="bob")
    bench.tick(120)
    assert bench.submitted()[-1] == "of bob--a01"


def test_a_user_who_holds_as_much_as_they_may_waits_and_others_go(
    database: Database, tmp_path: Path, ray: ScriptedRay
) -> None:
    bench = bench_with(database, tmp_path, ray, most_gpus_per_user=4)
    for name, user in (("one", "alice"), ("two", "alice"), ("three", "bob")):
        bench.add(name, 4, user=user)
    bench.tick()
    assert bench.submitted() == ["one--a01", "three--a01"]
    waiting = bench.task("two").waiting
    assert waiting is not None and waiting.code is WaitingCode.USER_LIMIT


def test_the_first_that_waits_is_told_its_moment_and_a_short_one_goes_ahead(
    database: Database, tmp_path: Path, ray: ScriptedRay
) -> None:
    bench = bench_with(database, tmp_path, ray, does_backfill=True)
    ray.claim(bench.running("half", 4, max_run_s=3600), ("node0", 4))
    bench.add("whole", 8)
    bench.add("short", 4, max_run_s=600)
    bench.tick()
    assert bench.submitted() == ["half--a01", "short--a01"]
    waiting = bench.task("whole").waiting
    assert waiting is not None and "starts_by" in waiting.facts


# --- the time that a task may run ---------------------------------------------------------------------
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


# --- Ray is away ------------------------------------------------------------------------------------
def test_while_ray_is_away_nothing_changes_but_what_is_said_and_it_recovers_alone(
    bench: Bench, ray: ScriptedRay
) -> None:
    ray.claim(bench.running("one"), ("node0", 8))
    for name in ("two", "three"):
        bench.add(name)
    bench.tick()
    bench.add("four")
    ray.away = {"*"}
    bench.tick(5)
    since = to_text(bench.now)
    bench.tick(5)
    states = [bench.state(name) for name in ("one", "two", "three", "four")]
    assert states == [State.RUNNING, State.PENDING_RESOURCES, State.PENDING_RESOURCES, State.QUEUED]
    for name in ("two", "three", "four"):
        waiting = bench.task(name).waiting
        assert waiting is not None
        assert (waiting.code, waiting.facts) == (WaitingCode.RAY, {"since": since}), name
    assert bench.shown.view is not None
    assert (bench.shown.view.unreachable_since, bench.shown.view.queued) == (since, 3)
    assert "Ray does not answer" in bench.shown.view.problem
    assert [node.node_id for node in bench.shown.view.nodes] == ["node0"]
    ray.away = set()
    bench.tick(5)
    assert (bench.shown.view.unreachable_since, bench.shown.view.problem) == (None, "")
    waiting = bench.task("two").waiting
    assert waiting is not None
    assert waiting.code is WaitingCode.GPUS


def test_when_ray_goes_away_again_it_is_since_then(bench: Bench, ray: ScriptedRay) -> None:
    for away in ({"*"}, set(), {"*"}):
        ray.away = away
        bench.tick(5)
    assert bench.shown.view is not None
    assert bench.shown.view.unreachable_since == to_text(bench.now)


def test_since_when_ray_is_away_outlives_the_scheduler(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    ray.away = {"*"}
    bench.tick()
    bench.restart()
    bench.tick(60)
    assert bench.shown.view is not None
    assert bench.shown.view.unreachable_since == to_text(BEGIN)


@pytest.mark.parametrize("what", ["job", "nodes", "placement_groups", "submit", "stop", "log", "log_tail"])
def test_whatever_call_finds_ray_away_all_goes_on_when_it_is_back(bench: Bench, ray: ScriptedRay, what: str) -> None:
    ends = bench.running("ends", 2, backfill=True)
    bench.running("canceled", 2)
    bench.running("runs", 2)
    ray.write(ends, b"trained\n")
    ray.fail(ends, TOO_FEW)
    bench.cancel("canceled")
    bench.add("waits", 2)
    ray.away = {what}
    bench.tick(1)
    bench.tick(1)
    ray.away = set()
    for _ in range(3):
        bench.tick(1)
    assert bench.state("ends") is State.PENDING_RESOURCES
    assert bench.state("canceled") is State.CANCELED
    assert bench.state("runs") is State.RUNNING
    assert bench.submitted() == ["ends--a01", "canceled--a01", "runs--a01", "waits--a01"]
    assert bench.log(ends) == b"trained\n"
    assert bench.attempts("waits")[0].attempt_no == 1


def test_an_answer_that_was_lost_makes_no_second_job(bench: Bench, ray: ScriptedRay) -> None:
    bench.add("one")
    ray.keeps_answer = True
    bench.tick()
    assert bench.state("one") is State.SUBMITTING
    ray.keeps_answer = False
    ray.run("one--a01")
    bench.tick()
    assert (bench.state("one"), bench.submitted()) == (State.RUNNING, ["one--a01"])
    assert len(bench.attempts("one")) == 1


def test_a_log_that_ray_withholds_delays_an_end_and_does_not_prevent_it(bench: Bench, ray: ScriptedRay) -> None:
    submission_id = bench.running("one")
    ray.end(submission_id)
    ray.away = {"log"}
    bench.tick(1)
    assert bench.state("one") is State.RUNNING
    bench.tick(30)
    assert bench.state("one") is State.SUCCEEDED


# --- what is shown ----------------------------------------------------------------------------------
def test_the_picture_shows_who_has_what(bench: Bench, ray: ScriptedRay) -> None:
    ray.claim(bench.running("one", 4), ("node0", 4))
    bench.add("two", 2)
    bench.add("three", 8)
    bench.tick()
    view = bench.shown.view
    assert view is not None
    assert [(holder.task_id, holder.gpus, holder.by_node) for holder in view.holders] == [
        ("one", 4, {"node0": 4}),
        ("two", 2, {}),
    ]
    assert (view.queued, view.seen_at, view.nodes[0].free_gpus) == (1, to_text(bench.now), 4)
