"""verl's checkpoints lie in the folder of the task: the next attempt goes on from them, and they stay until its end."""

from __future__ import annotations

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from app.homes.retention import RetentionSweeper
from app.training.gateway import RayStatus
from app.training.model import State, Workload
from app.training.service import Tasks
from tests.harness.training.scripted_ray import PPO, USER, Bench, ScriptedRay

WEEKS = 21 * 86400


@pytest.fixture
def checkpoints(bench: Bench) -> Path:
    """Where verl writes what it has trained."""
    return bench.folder("one") / "checkpoints"


def sweep(bench: Bench) -> None:
    RetentionSweeper(bench.database, bench.homes.options).sweep(bench.now)


def told(ray: ScriptedRay, attempt: int) -> str:
    folder = re.search(r"trainer\.default_local_dir=(\S+)", ray.submissions[attempt - 1].entrypoint)
    assert folder is not None
    return folder[1]


def lost_at_hour_30(bench: Bench, ray: ScriptedRay, checkpoints: Path) -> None:
    """A task of verl whose node died after it had saved."""
    bench.running("one", workload=Workload.PPO, spec=PPO)
    assert checkpoints.parent.is_dir()
    (checkpoints / "global_step_50").mkdir(parents=True)
    ray.lose_node("one--a01")
    bench.tick(30 * 3600)
    assert bench.state("one") is State.PENDING_RESOURCES


def test_a_second_attempt_goes_on_from_the_checkpoints_of_the_first(
    bench: Bench, ray: ScriptedRay, checkpoints: Path
) -> None:
    lost_at_hour_30(bench, ray, checkpoints)
    bench.tick(61)
    assert bench.submitted() == ["one--a01", "one--a02"]
    assert told(ray, 1) == told(ray, 2) == str(checkpoints)
    assert (checkpoints / "global_step_50").is_dir()


def test_checkpoints_outlive_the_wait_for_the_next_attempt_and_the_folder_of_the_last(
    bench: Bench, ray: ScriptedRay, checkpoints: Path
) -> None:
    lost_at_hour_30(bench, ray, checkpoints)
    ray.away.add("*")  # for weeks
    bench.now += timedelta(seconds=WEEKS)
    sweep(bench)
    assert not bench.folder("one--a01").exists()
    assert (checkpoints / "global_step_50").is_dir()
    ray.away.clear()
    bench.tick()
    assert bench.submitted()[-1] == "one--a02"


def test_checkpoints_go_to_the_trash_after_the_end_of_the_task(
    bench: Bench, ray: ScriptedRay, checkpoints: Path
) -> None:
    lost_at_hour_30(bench, ray, checkpoints)
    bench.tick(61)
    ray.run("one--a02")
    ray.end("one--a02", RayStatus.SUCCEEDED)
    bench.tick()
    assert bench.state("one") is State.SUCCEEDED
    bench.now += timedelta(days=3, hours=1)
    sweep(bench)
    trashed = bench.root / "users" / USER / "trash" / "jobs" / "one" / "checkpoints" / "global_step_50"
    assert (checkpoints.exists(), trashed.is_dir()) == (False, True)


def test_who_cancels_before_the_next_attempt_keeps_the_checkpoints_no_longer_than_others(
    bench: Bench, ray: ScriptedRay, checkpoints: Path
) -> None:
    lost_at_hour_30(bench, ray, checkpoints)
    Tasks(bench.options, bench.database, bench.homes, lambda: None).changes.cancel(USER, "one", now=bench.now)
    view = Tasks(bench.options, bench.database, bench.homes, lambda: None).get(USER, "one")
    assert view.checkpoints is not None
    assert (view.checkpoints.path, view.checkpoints.is_trashed) == (f"/private/users/{USER}/jobs/one", False)
    bench.now += timedelta(days=3, hours=1)
    sweep(bench)
    assert not checkpoints.exists()


def test_a_program_has_no_folder_but_its_attempts(bench: Bench) -> None:
    bench.running("one")
    assert not bench.folder("one").exists()
    assert Tasks(bench.options, bench.database, bench.homes, lambda: None).get(USER, "one").checkpoints is None


def resumed(ray: ScriptedRay, attempt: int) -> str | None:
    path = re.search(r"trainer\.resume_from_path=(\S+)", ray.submissions[attempt - 1].entrypoint)
    return path and path[1]


def test_a_task_begins_with_the_checkpoint_that_it_names_and_goes_on_from_its_own(
    bench: Bench, ray: ScriptedRay, checkpoints: Path
) -> None:
    begin = bench.folder("before") / "checkpoints" / "global_step_20"
    begin.mkdir(parents=True)
    spec = f"{PPO}resume_from: /private/users/{USER}/jobs/before/checkpoints/global_step_20\n"
    bench.running("one", workload=Workload.PPO, spec=spec)
    assert resumed(ray, 1) == str(begin)
    assert "trainer.resume_mode=resume_path" in ray.submissions[0].entrypoint
    (checkpoints / "global_step_50").mkdir(parents=True)
    ray.lose_node("one--a01")
    bench.tick(3600)
    bench.tick(61)
    assert bench.submitted() == ["one--a01", "one--a02"]
    assert resumed(ray, 2) is None


def test_a_checkpoint_that_has_gone_fails_the_task_before_it_reaches_ray(bench: Bench, ray: ScriptedRay) -> None:
    spec = f"{PPO}resume_from: /private/users/{USER}/jobs/before/checkpoints/global_step_20\n"
    bench.add("one", workload=Workload.PPO, spec=spec)
    bench.tick()
    assert bench.submitted() == []
    assert bench.state("one") is State.FAILED
    assert "global_step_20" in bench.task("one").error_summary


LOSSES = {10: 3.0, 20: 1.0, 30: 2.0, 40: 4.0}


def learns(bench: Bench, checkpoints: Path, complete: int) -> None:
    """What verl has left after these steps, the last checkpoint not yet whole if that was an earlier one."""
    rows = [json.dumps({"step": step, "data": {"val/loss": loss}}) + "\n" for step, loss in LOSSES.items()]
    (bench.folder("one--a01") / "metrics.jsonl").write_text("".join(rows))
    for step in LOSSES:
        (checkpoints / f"global_step_{step}" / "actor").mkdir(parents=True)
        (checkpoints / f"global_step_{step}" / "actor" / "model.pt").write_bytes(b"x")
    (checkpoints / "latest_checkpointed_iteration.txt").write_text(str(complete))


def left(checkpoints: Path) -> list[int]:
    return sorted(int(folder.name.rpartition("_")[2]) for folder in checkpoints.glob("global_step_*"))


def test_the_last_and_the_best_checkpoints_are_kept_while_it_runs(bench: Bench, checkpoints: Path) -> None:
    bench.running("one", workload=Workload.PPO, spec=f"{PPO}keep_best: 1\n")
    learns(bench, checkpoints, complete=30)
    for _ in range(4):
        bench.tick(5)
    assert left(checkpoints) == [20, 30, 40]
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("40")
    for _ in range(4):
        bench.tick(5)
    assert left(checkpoints) == [20, 40]
    assert bench.events("one", "CHECKPOINT_DELETED") == [{"step": 10}, {"step": 30}]


def test_a_checkpoint_written_just_before_the_end_counts_too(bench: Bench, ray: ScriptedRay, checkpoints: Path) -> None:
    bench.running("one", workload=Workload.PPO, spec=f"{PPO}keep_best: 1\nkeep_checkpoints: 2\n")
    learns(bench, checkpoints, complete=40)
    for step in range(1, 9):
        (checkpoints / f"global_step_{step}").mkdir()
    ray.end("one--a01", RayStatus.SUCCEEDED)
    bench.tick()
    assert (bench.state("one"), left(checkpoints)) == (State.SUCCEEDED, [20, 30, 40])


def test_without_such_a_rule_nothing_is_deleted_by_the_scheduler_and_verl_keeps_the_last(
    bench: Bench, ray: ScriptedRay, checkpoints: Path
) -> None:
    bench.running("one", workload=Workload.PPO, spec=f"{PPO}keep_checkpoints: 2\n")
    learns(bench, checkpoints, complete=40)
    bench.tick(5)
    assert left(checkpoints) == [10, 20, 30, 40]
    assert "trainer.max_actor_ckpt_to_keep=2" in ray.submissions[0].entrypoint


def test_verl_deletes_none_where_the_best_stay(bench: Bench, ray: ScriptedRay) -> None:
    bench.running("one", workload=Workload.PPO, spec=f"{PPO}keep_checkpoints: 2\nkeep_best: 1\n")
    assert "ckpt_to_keep" not in ray.submissions[0].entrypoint


def test_no_link_in_the_place_of_a_checkpoint_is_followed(bench: Bench, checkpoints: Path, tmp_path: Path) -> None:
    bench.running("one", workload=Workload.PPO, spec=f"{PPO}keep_best: 1\n")
    learns(bench, checkpoints, complete=40)
    other = tmp_path / "global_step_30"
    other.mkdir()
    (other / "kept").touch()
    shutil.rmtree(checkpoints / "global_step_30" / "actor")
    (checkpoints / "global_step_30" / "actor").symlink_to(other)
    for _ in range(4):
        bench.tick(5)
    assert left(checkpoints) == [20, 40]
    assert (other / "kept").exists()
