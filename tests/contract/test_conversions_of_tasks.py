"""One suite over both databases: who makes the conversion of a task, and which tasks still wait for theirs."""

from __future__ import annotations

from dataclasses import replace

from app.kit.sql import Database
from app.training import store
from app.training.model import Conversion, Demand, Event, NewTask, Task, Workload
from tests.harness.databases import database, empty, together, url

__all__ = ["database", "empty", "url"]
ENDED, SOON, LATER = "2026-11-01T12:00:00.000Z", "2026-11-01T12:00:05.000Z", "2026-11-01T12:20:00.000Z"
CLAIM = Conversion("t1", 1, "model.onnx", ENDED, next_try_at=LATER)


def add(database: Database, task_id: str, spec: str, *, ended_at: str = ENDED, end: Event = Event.SUCCEED) -> None:
    with database.write() as conn:
        new = NewTask(task_id, "alice", Workload.SCRIPT, spec, Demand(1, 0, 1))
        task: Task | None = store.add_task(conn, new, ended_at)
        for event in (Event.ADMIT, Event.ACCEPT, end):
            assert task is not None
            task = store.apply(conn, task, event, ended_at)


def claim(database: Database, conversion: Conversion, at: str) -> bool:
    with database.write() as conn:
        return store.claim_conversion(conn, conversion, at)


def test_of_many_who_claim_at_once_one_gets_it(database: Database) -> None:
    got: list[bool] = []
    assert together(lambda _: got.append(claim(database, CLAIM, SOON)), 4) == []
    assert sorted(got) == [False, False, False, True]


def test_a_claim_holds_until_its_time_and_then_for_the_next_one(database: Database) -> None:
    again = replace(CLAIM, next_try_at="2026-11-01T12:40:00.000Z")
    claims = [
        claim(database, claimed, at) for claimed, at in ((CLAIM, SOON), (again, SOON), (again, LATER), (again, LATER))
    ]
    assert claims == [True, False, True, False]
    with database.read() as conn:
        assert store.conversions_of(conn, "t1") == [again]


def test_what_became_a_job_or_a_problem_for_good_is_not_claimed_again(database: Database) -> None:
    for number, end in enumerate((replace(CLAIM, job_id="j"), replace(CLAIM, problem="There is no model."))):
        made = replace(end, task_id=f"t{number}", next_try_at=None)
        assert claim(database, replace(CLAIM, task_id=made.task_id), SOON)
        with database.write() as conn:
            store.put_conversion(conn, made)
        assert not claim(database, replace(CLAIM, task_id=made.task_id), "2027-01-01T00:00:00.000Z")
        with database.read() as conn:
            assert store.conversions_due(conn, "2027-01-01T00:00:00.000Z") == []
            assert store.conversions_of(conn, made.task_id) == [made]


def test_what_is_to_be_tried_again_is_due_at_its_time(database: Database) -> None:
    claim(database, CLAIM, SOON)
    with database.read() as conn:
        assert (store.conversions_due(conn, SOON), store.conversions_due(conn, LATER)) == ([], ["t1"])


def test_tasks_that_ask_for_a_conversion_and_have_none_are_found(database: Database) -> None:
    for task_id in ("asks", "has one", "by hand"):
        add(database, task_id, "convert: {images: x}")
    add(database, "asks not", "workload: script")
    add(database, "failed", "convert: {images: x}", end=Event.FAIL)
    add(database, "long ago", "convert: {images: x}", ended_at="2026-10-01T12:00:00.000Z")
    with database.write() as conn:
        store.put_conversion(conn, replace(CLAIM, task_id="has one"))
        store.put_conversion(conn, Conversion("by hand", 1, "model.onnx", SOON, "some-job"))
    with database.read() as conn:
        assert store.list_unconverted(conn, "convert", ENDED) == ["asks", "by hand"]
