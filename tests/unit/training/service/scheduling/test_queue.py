"""Who goes next: the line, and other orders of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.kit.sql import Database
from app.training import store
from app.training.gateway import PlacementGroup
from app.training.model import Demand, Priority, State, WaitingCode
from app.training.model.queue_order import QueuePolicy
from app.training.service.scheduling import admission
from tests.harness.training.scripted_ray import Bench, ScriptedRay


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


@pytest.mark.slow
def test_a_tick_over_a_long_line_writes_only_what_changed(
    bench: Bench, database: Database, ray: ScriptedRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "FRESH_AT_ONCE", admission.BATCH)
    ray.claim(bench.running("holder", 4), ("node0", 4))
    last = admission.BATCH + 9
    for number in range(last + 1):
        bench.add(f"t{number}", 8)
    bench.tick()
    assert bench.task("t1").state is State.PENDING_RESOURCES
    assert bench.task(f"t{last}").state is State.QUEUED
    bench.tick(5)
    assert bench.task(f"t{last}").state is State.PENDING_RESOURCES
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


def test_who_needs_nothing_of_what_the_first_waits_for_goes_ahead_and_its_history_says_so(
    bench: Bench, ray: ScriptedRay
) -> None:
    ray.claim(bench.running("runs"), ("node0", 8))
    bench.add("first", 4)
    bench.add("second", 1)
    bench.add("script", demand=Demand(1, 0, 2, claims_by_group=False))
    bench.tick()
    assert [bench.state(name) for name in ("first", "second", "script")] == [
        State.PENDING_RESOURCES,
        State.PENDING_RESOURCES,
        State.SUBMITTED,
    ]
    begun, _ = bench.events("script", "STATE")
    assert begun["ahead_of"] == 2
    assert all("ahead_of" not in detail for detail in bench.events("runs", "STATE"))
