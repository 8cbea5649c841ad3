"""Sweeps that grow while they run, before a scripted cluster."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from app.kit.clock import to_text
from app.training.gateway import RayStatus
from app.training.model import State, Task
from app.training.service import Tasks, TaskSweeps
from app.training.service.curves import CurveReader
from app.training.service.scheduling import sweep_steps
from app.training.service.sweeps import SweepView
from tests.harness.training.scripted_ray import USER, Bench, ScriptedRay

pytest.importorskip("optuna", reason="needs the extra train")
SWEEP: dict[str, Any] = {"workload": "script", "code_path": "/private/common/code/digits", "name": "rates"}
LISTED = {"vary": {"args.lr": [1, 2, 3]}, "concurrency": 1}
SEARCH = {"vary": {"args.lr": {"low": 1e-6, "high": 1.0, "log": True}}, "search": "optuna", "metric": "loss", "most": 4}


def sweeps_of(bench: Bench) -> TaskSweeps:
    return TaskSweeps(Tasks(bench.options, bench.database, bench.homes, lambda: None), CurveReader(bench.homes))


def submitted(bench: Bench, **fields: Any) -> str:
    body = json.dumps(SWEEP | fields).encode()
    return sweeps_of(bench).submit(USER, body, now=bench.now).sweep_id


def shown(bench: Bench, sweep_id: str) -> SweepView:
    return sweeps_of(bench).view(USER, sweep_id)


def begin_all(bench: Bench, ray: ScriptedRay) -> None:
    """Everything that was submitted runs."""
    bench.tick(1)
    for submission_id in bench.submitted():
        if submission_id not in ray.ended:
            ray.run(submission_id)
    bench.tick(1)


def tell(bench: Bench, task: Task, *losses: float) -> None:
    """So it reports, from step 1 on."""
    rows = (json.dumps({"step": step, "loss": loss}) for step, loss in enumerate(losses, 1))
    folder = bench.folder(f"{task.task_id}--a01")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("\n".join(rows) + "\n")


def end(bench: Bench, ray: ScriptedRay, task: Task, loss: float | None = None) -> None:
    if loss is not None:
        tell(bench, task, loss)
    ray.end(f"{task.task_id}--a01", RayStatus.SUCCEEDED if loss is not None else RayStatus.FAILED)
    ray.ended.add(f"{task.task_id}--a01")
    begin_all(bench, ray)


@pytest.fixture(autouse=True)
def remember_ends(ray: ScriptedRay) -> None:
    ray.ended = set()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_no_more_tasks_are_there_at_once_than_it_says(bench: Bench, ray: ScriptedRay) -> None:
    sweep_id = submitted(bench, **LISTED)
    begin_all(bench, ray)
    for number, loss in enumerate([0.5, 0.25, 0.75], 1):
        view = shown(bench, sweep_id)
        assert (len(view.rows), view.unended, view.is_open) == (number, 1, True)
        assert view.rows[-1].values == {"args.lr": number}
        assert f"--lr={number}" in view.rows[-1].task.spec_text
        end(bench, ray, view.rows[-1].task, loss)
    view = shown(bench, sweep_id)
    assert (view.is_open, view.has_ended, view.metric) == (False, True, "loss")
    assert [(row.best.value, row.is_best) for row in view.rows if row.best] == [
        (0.5, False),
        (0.25, True),
        (0.75, False),
    ]


def test_what_ended_tasks_reached_outlives_their_folders(bench: Bench, ray: ScriptedRay) -> None:
    sweep_id = submitted(bench, **LISTED)
    begin_all(bench, ray)
    (row,) = shown(bench, sweep_id).rows
    end(bench, ray, row.task, 0.5)
    (bench.folder(f"{row.task.task_id}--a01") / "metrics.jsonl").unlink()
    best = shown(bench, sweep_id).rows[0].best
    assert best is not None and best.value == 0.5


@pytest.mark.slow
def test_a_search_goes_on_by_what_its_tasks_reported_also_after_a_restart(bench: Bench, ray: ScriptedRay) -> None:
    sweep_id = submitted(bench, **SEARCH, concurrency=2)
    begin_all(bench, ray)
    assert len(shown(bench, sweep_id).rows) == 2
    for number in range(4):
        bench.restart()
        end(bench, ray, shown(bench, sweep_id).rows[number].task, 1.0 - number / 10)
    view = shown(bench, sweep_id)
    assert (len(view.rows), view.has_ended, view.ranked[0].task) == (4, True, view.rows[3].task)
    assert len({row.values["args.lr"] for row in view.rows}) == 4


@pytest.mark.slow
def test_a_task_that_falls_behind_is_stopped_once_and_for_all(bench: Bench, ray: ScriptedRay) -> None:
    rule = {"metric": "loss", "early_stop": {"min_steps": 2, "reduction_factor": 2}}
    sweep_id = submitted(bench, **(LISTED | {"concurrency": 2} | rule))
    begin_all(bench, ray)
    good, bad = (row.task for row in shown(bench, sweep_id).rows)
    tell(bench, good, 0.9, 0.1)
    tell(bench, bad, 0.9, 0.8, 0.01)
    bench.tick(1)
    assert (bench.state(good.task_id), bench.state(bad.task_id)) == (State.RUNNING, State.CANCELING)
    assert bench.events(bad.task_id, "STOPPED_EARLY") == [{"metric": "loss", "step": 2, "value": 0.8}]
    bench.restart()
    bench.tick(1)
    assert len(bench.events(good.task_id, "SWEEP_REACHED")) == 1
    ray.end(f"{bad.task_id}--a01", RayStatus.STOPPED)
    bench.tick(1)
    ended = bench.task(bad.task_id)
    assert ended.state is State.CANCELED
    assert ended.error_summary == "Stopped early: at step 2 its loss of 0.8 was behind that of other tasks."
    view = shown(bench, sweep_id)
    assert [row.is_stopped_early for row in view.rows] == [False, True, False], "and the next one has come"


@pytest.mark.slow
def test_between_two_ticks_a_comparison_is_noticed_and_ray_is_told_to_stop_in_the_next_one(
    bench: Bench, ray: ScriptedRay
) -> None:
    rule = {"metric": "loss", "early_stop": {"min_steps": 2, "reduction_factor": 2}}
    sweep_id = submitted(bench, **(LISTED | {"concurrency": 2} | rule))
    begin_all(bench, ray)
    good, bad = (row.task for row in shown(bench, sweep_id).rows)
    assert not bench.scheduler.has_news()
    tell(bench, good, 0.9)
    tell(bench, bad, 0.9)
    assert not bench.scheduler.has_news(), "step 2 is the first comparison"
    for task, loss in ((good, 0.1), (bad, 0.8)):
        tell(bench, task, 0.9, loss)
        assert bench.scheduler.has_news()
        bench.tick(1)
        assert not bench.scheduler.has_news(), "it is on record"
    assert ("stop", f"{bad.task_id}--a01") in ray.calls
    assert ray.jobs[f"{bad.task_id}--a01"].job.status is RayStatus.STOPPED
    bench.tick(1)
    assert (bench.state(good.task_id), bench.state(bad.task_id)) == (State.RUNNING, State.CANCELED)


def test_a_tick_that_stops_a_task_is_followed_by_another_soon(bench: Bench, ray: ScriptedRay) -> None:
    rule = {"metric": "loss", "early_stop": {"min_steps": 1, "reduction_factor": 2}}
    sweep_id = submitted(bench, **(LISTED | {"concurrency": 2} | rule))
    begin_all(bench, ray)
    good, bad = (row.task for row in shown(bench, sweep_id).rows)
    tell(bench, good, 0.1)
    assert not bench.scheduler.tick(bench.now), "nothing is in transition"
    tell(bench, bad, 0.9)
    assert bench.scheduler.tick(bench.now)


def test_a_cancelled_sweep_grows_no_more(bench: Bench, ray: ScriptedRay) -> None:
    sweep_id = submitted(bench, **LISTED)
    cancelled = sweeps_of(bench).cancel(USER, sweep_id, now=bench.now)
    assert (cancelled.remark, cancelled.unended) == ("It was cancelled.", 0)
    bench.tick(1)
    view = shown(bench, sweep_id)
    assert (len(view.rows), view.has_ended) == (1, True)


def test_the_sweeps_of_a_deleted_user_grow_no_more(bench: Bench) -> None:
    sweep_id = submitted(bench, **LISTED)
    Tasks(bench.options, bench.database, bench.homes, lambda: None).changes.cancel_all(USER)
    bench.tick(1)
    assert len(shown(bench, sweep_id).rows) == 1


def test_a_task_that_is_refused_later_ends_the_growth_and_says_why(bench: Bench, ray: ScriptedRay) -> None:
    sweep_id = submitted(bench, **LISTED)
    begin_all(bench, ray)
    (bench.root / "common/code/digits/train.py").unlink()
    end(bench, ray, shown(bench, sweep_id).rows[0].task, 0.5)
    view = shown(bench, sweep_id)
    assert view.remark.startswith("The next task was refused: ") and "program" in view.remark
    assert (len(view.rows), view.has_ended) == (1, True)


def test_a_sweep_outlives_data_homes_that_are_away(bench: Bench, ray: ScriptedRay) -> None:
    sweep_id = submitted(bench, **LISTED)
    begin_all(bench, ray)
    (bench.root / "common").rename(bench.root / "elsewhere")
    end(bench, ray, shown(bench, sweep_id).rows[0].task, 0.5)
    view = shown(bench, sweep_id)
    assert (view.remark, len(view.rows)) == ("", 1)
    (bench.root / "elsewhere").rename(bench.root / "common")
    bench.tick(1)
    assert len(shown(bench, sweep_id).rows) == 2


@pytest.mark.slow
def test_a_search_ends_if_task_after_task_reports_nothing(bench: Bench, ray: ScriptedRay) -> None:
    sweep_id = submitted(bench, **(SEARCH | {"most": 20}), concurrency=1)
    begin_all(bench, ray)
    for number in range(sweep_steps.MOST_FAILURES):
        end(bench, ray, shown(bench, sweep_id).rows[number].task)
    view = shown(bench, sweep_id)
    assert view.remark == "Its last 5 tasks ended without a value of loss." and view.has_ended


def test_a_search_ends_where_there_are_no_other_values(bench: Bench, ray: ScriptedRay) -> None:
    """Three digits of these ends are the same number."""
    interval = {"args.lr": {"low": 1.0, "high": 1.001}}
    sweep_id = submitted(bench, **(SEARCH | {"vary": interval, "search": "random"}))
    begin_all(bench, ray)
    view = shown(bench, sweep_id)
    assert (len(view.rows), view.size, view.remark) == (1, 1, sweep_steps.NO_OTHERS)


def test_without_optuna_a_search_says_so(bench: Bench, ray: ScriptedRay, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep_id = submitted(bench, **SEARCH, concurrency=1)
    begin_all(bench, ray)
    monkeypatch.setitem(sys.modules, "optuna", None)
    end(bench, ray, shown(bench, sweep_id).rows[0].task, 0.5)
    assert shown(bench, sweep_id).remark == sweep_steps.NO_OPTUNA


def test_without_optuna_a_comparison_stops_no_task_and_is_complained_of_once(
    bench: Bench, ray: ScriptedRay, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rule = {"metric": "loss", "early_stop": {"min_steps": 1, "reduction_factor": 2}}
    sweep_id = submitted(bench, **(LISTED | {"concurrency": 2} | rule))
    begin_all(bench, ray)
    monkeypatch.setitem(sys.modules, "optuna", None)
    for row, loss in zip(shown(bench, sweep_id).rows, (0.1, 0.9), strict=True):
        tell(bench, row.task, loss, loss)
    bench.tick(3)
    view = shown(bench, sweep_id)
    assert view.remark == sweep_steps.NO_OPTUNA
    assert [row.task.state for row in view.rows] == [State.RUNNING] * 2
    assert caplog.text.count(sweep_steps.NO_OPTUNA) == 1


def test_two_schedulers_do_not_add_the_same_task_twice(bench: Bench, ray: ScriptedRay) -> None:
    sweep_id = submitted(bench, **LISTED)
    begin_all(bench, ray)
    task = shown(bench, sweep_id).rows[0].task
    tell(bench, task, 0.5)
    ray.end(f"{task.task_id}--a01", RayStatus.SUCCEEDED)
    (stale,) = sweep_steps.read_progress(bench.scheduler.context)
    bench.tick(1)
    assert len(shown(bench, sweep_id).rows) == 2
    submission = bench.scheduler._submission
    document = stale.document
    with pytest.raises(sweep_steps.SweepChanged):
        submission.extend(stale.sweep, document, document.points[1:2], len(stale.tasks), bench.now)
    assert to_text(bench.now) and len(shown(bench, sweep_id).rows) == 2
