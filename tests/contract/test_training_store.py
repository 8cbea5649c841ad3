"""One suite over both databases: what is remembered of training tasks, and that two who change one are told apart."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.bootstrap.accounts import MIGRATIONS
from app.homes.model import HomesOptions
from app.homes.service import Homes
from app.kit.sql import Database
from app.kit.sql.migrations import move, upgrade
from app.training import store
from app.training.errors import TooManyTasks
from app.training.model import (
    TERMINAL,
    TRANSITIONS,
    Attempt,
    Conversion,
    Demand,
    Event,
    FailureKind,
    NewTask,
    State,
    Task,
    WaitingCode,
    WaitingReason,
    Workload,
)
from app.training.service import Tasks, TrainingOptions
from app.training.store import QueueEntry, TaskFilter, TaskIdTaken
from tests.harness.databases import database, empty, together, url

__all__ = ["database", "empty", "url"]
AT, LATER = "2026-11-01T12:00:00.000Z", "2026-11-01T13:00:00.000Z"
DEMAND = Demand(2, 8, 26.5, driver_cpus=1)


def add(
    database: Database, task_id: str, user: str = "alice", at: str = AT, key: str | None = None, **fields: object
) -> Task:
    new = NewTask(
        **{"workload": Workload.PPO, "spec_text": "x", "demand": DEMAND, **fields, "task_id": task_id, "user": user}
    )  # type: ignore[arg-type]
    with database.write() as conn:
        return store.add_task(conn, new, at, idempotency_key=key)


def brought_to(database: Database, task: Task, state: State) -> Task:
    """By the shortest way of transitions."""
    ways: list[tuple[State, list[Event]]] = [(task.state, [])]
    for at, way in ways:
        if at is state:
            break
        ways += [
            (TRANSITIONS[at, event], [*way, event])
            for event in Event
            if (at, event) in TRANSITIONS and TRANSITIONS[at, event] not in [seen for seen, _ in ways]
        ]
    for event in way:
        with database.write() as conn:
            changed = store.apply(conn, task, event, AT)
        assert changed is not None
        task = changed
    return task


def ids(tasks: Sequence[Task | QueueEntry]) -> list[str]:
    return [task.task_id for task in tasks]


# --- adding ---------------------------------------------------------------------------------------
def test_what_was_added_is_read_back_as_it_was(database: Database) -> None:
    spec = "# 訓練\nworkload: ppo   \r\n\ttabs, 'quotes' and \U0001f600\n\n"
    added = add(database, "t1", name="名前 %_", spec_text=spec, backfill=True, infra_retries=3, max_wait_s=60)
    with database.read() as conn:
        seen = store.get_task(conn, "t1")
        assert store.get_task(conn, "t2") is None
        assert [(event.kind, event.detail) for event in store.events_of(conn, "t1")] == [("CREATED", {"by": "alice"})]
    assert seen == added
    assert (seen.spec_text, seen.demand, seen.state, seen.version) == (spec, DEMAND, State.QUEUED, 1)


def test_an_id_is_taken_once_and_nothing_is_left_of_the_second(database: Database) -> None:
    add(database, "t1")
    with pytest.raises(TaskIdTaken):
        add(database, "t1", user="bob")
    with database.read() as conn:
        assert len(store.events_of(conn, "t1")) == 1


def test_a_key_is_taken_once_by_each_user(database: Database) -> None:
    add(database, "t1", key="k")
    add(database, "t2", user="bob", key="k")
    add(database, "t3")
    add(database, "t4")  # any number without a key
    with pytest.raises(TaskIdTaken):
        add(database, "t5", key="k")
    with database.read() as conn:
        tasks_of_key = [store.by_idempotency_key(conn, user, "k") for user in ("alice", "bob", "carol")]
    assert [task and task.task_id for task in tasks_of_key] == ["t1", "t2", None]


# --- the one writer of the state ------------------------------------------------------------------
@pytest.mark.parametrize("state", State)
def test_every_event_does_what_the_table_says_and_no_other_is_taken(database: Database, state: State) -> None:
    for event in Event:
        task = brought_to(database, add(database, f"{state}-{event}"), state)
        with database.write() as conn:
            if (state, event) not in TRANSITIONS:
                with pytest.raises(KeyError):
                    store.apply(conn, task, event, LATER)
                assert store.get_task(conn, task.task_id) == task
                continue
            changed = store.apply(conn, task, event, LATER)
            assert changed == store.get_task(conn, task.task_id)
            assert changed is not None and changed.state is TRANSITIONS[state, event]
            assert (changed.version, changed.updated_at) == (task.version + 1, LATER)
            assert (changed.ended_at == LATER) == (changed.state in TERMINAL)


def test_who_has_read_it_before_a_change_changes_nothing(database: Database) -> None:
    task = add(database, "t1")
    with database.write() as conn:
        assert store.apply(conn, task, Event.ADMIT, AT) is not None
    with database.write() as conn:
        assert store.apply(conn, task, Event.CANCEL, AT) is None
        assert store.change(conn, task, AT, error_summary="late") is None
    with database.read() as conn:
        seen = store.get_task(conn, "t1")
        assert seen is not None and (seen.state, seen.error_summary) == (State.SUBMITTING, "")
        assert [event.detail.get("to") for event in store.events_of(conn, "t1")] == [None, "SUBMITTING"]


def test_of_many_at_once_one_gets_the_task(database: Database) -> None:
    task = add(database, "t1")
    got: list[Event] = []

    def take(event: Event) -> None:
        with database.write() as conn:
            if store.apply(conn, task, event, AT) is not None:
                got.append(event)

    threads = [threading.Thread(target=take, args=(event,)) for event in [Event.ADMIT, Event.CANCEL] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1
    with database.read() as conn:
        seen = store.get_task(conn, "t1")
        assert seen is not None and seen.state is TRANSITIONS[State.QUEUED, got[0]]
        assert len(store.events_of(conn, "t1")) == 2


def test_a_reason_for_waiting_is_kept_until_it_waits_no_more(database: Database) -> None:
    task, reason = add(database, "t1"), WaitingReason(WaitingCode.GPUS, {"free": 0, "needed": 16})
    with database.write() as conn:
        waiting = store.apply(conn, task, Event.WAIT, AT, waiting=reason, next_run_at=LATER)
        assert waiting is not None and (waiting.waiting, waiting.next_run_at) == (reason, LATER)
        again = store.apply(conn, waiting, Event.WAIT, AT)
        assert again is not None and again.waiting == reason
        assert len(store.events_of(conn, "t1")) == 2  # of its making, and of the first wait
        admitted = store.apply(conn, again, Event.ADMIT, AT)
        assert admitted is not None and admitted.waiting is None


def test_what_failed_says_how(database: Database) -> None:
    task = brought_to(database, add(database, "t1"), State.RUNNING)
    with database.write() as conn:
        store.apply(
            conn,
            task,
            Event.FAIL,
            LATER,
            detail={"attempt_no": 1},
            failure_kind=FailureKind.OUT_OF_MEMORY,
            error_summary="it was too much",
        )
        seen = store.get_task(conn, "t1")
        last = store.events_of(conn, "t1")[-1]
    assert seen is not None and (seen.failure_kind, seen.error_summary) == (
        FailureKind.OUT_OF_MEMORY,
        "it was too much",
    )
    assert last.detail == {"from": "RUNNING", "to": "FAILED", "attempt_no": 1}


# --- the line -------------------------------------------------------------------------------------
def test_the_line_is_in_the_order_of_submission_whatever_happens_to_a_task(database: Database) -> None:
    made = [add(database, f"t{number}", user=["alice", "bob"][number % 2]) for number in range(5)]
    brought_to(database, made[0], State.PENDING_RESOURCES)
    running = brought_to(database, made[1], State.RUNNING)
    brought_to(database, made[2], State.SUCCEEDED)
    with database.write() as conn:
        assert ids(store.queue(conn)) == ["t0", "t3", "t4"]
        assert ids(store.active(conn)) == ["t1"]
        present = [task for task in (store.get_task(conn, task.task_id) for task in made) if task]
        assert store.counts_ahead(conn, present) == {"t0": 0, "t3": 1, "t4": 2}
        assert (store.count_unended(conn), store.count_unended(conn, "alice"), store.count_unended(conn, "bob")) == (
            4,
            2,
            2,
        )
        assert ids(store.unended_of(conn, "bob")) == ["t1", "t3"]
        store.apply(conn, running, Event.RETRY, AT)
        assert ids(store.queue(conn)) == ["t0", "t1", "t3", "t4"]
        first = store.queue(conn)[0]
    assert (first.state, first.demand, first.waiting) == (State.PENDING_RESOURCES, DEMAND, None)


def test_why_tasks_wait_is_noted_of_those_that_do_and_disturbs_nobody_who_changes_them(database: Database) -> None:
    waits, runs = add(database, "waits"), brought_to(database, add(database, "runs"), State.RUNNING)
    reason = WaitingReason(WaitingCode.GPUS, {"free": 0, "needed": 8})
    with database.write() as conn:
        store.note_waiting(conn, ["waits", "runs"], reason)
        assert [place.waiting for place in store.queue(conn)] == [reason]
        assert store.get_task(conn, "runs") == runs
        assert store.apply(conn, waits, Event.CANCEL, AT) is not None


SPEC, NOW = b"workload: script\ncode_path: /private/common/code/digits\n", datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def tasks(database: Database, tmp_path: Path) -> Tasks:
    homes = Homes(HomesOptions(tmp_path / "homes"), database, None)
    homes.files.create("alice")
    program = tmp_path / "homes/common/code/digits/train.py"
    program.parent.mkdir(parents=True)
    program.touch()
    return Tasks(TrainingOptions(True, "/private", max_unended_per_user=3), database, homes, lambda: None)


def test_a_user_who_submits_many_at_once_gets_no_more_than_the_limit(tasks: Tasks) -> None:
    refused = together(lambda _: tasks.submit("alice", SPEC, now=NOW), 8)
    assert [type(error) for error in refused] == [TooManyTasks] * 5
    assert tasks.count_unended("alice") == 3


def test_of_the_same_key_at_once_comes_one_task(tasks: Tasks) -> None:
    answers: list[tuple[Task, bool]] = []
    assert together(lambda _: answers.append(tasks.submit("alice", SPEC, idempotency_key="k", now=NOW)), 8) == []
    assert len({task.task_id for task, _ in answers}) == 1
    assert [is_new for _, is_new in answers].count(True) == 1


# --- lists ----------------------------------------------------------------------------------------
@pytest.fixture
def many(database: Database) -> Database:
    add(database, "mvp2-alice-ppo-1", at="2026-11-01T00:00:00.000Z", name="First_Try")
    done = add(database, "mvp2-alice-sft-2", at="2026-11-02T00:00:00.000Z", workload=Workload.SFT, name="100 % sure")
    add(database, "mvp2-alice-ppo-3", at="2026-11-03T00:00:00.000Z", name="Ärger")
    add(database, "mvp2-bob-ppo-4", user="bob", at="2026-11-04T00:00:00.000Z", name="First")
    brought_to(database, done, State.SUCCEEDED)
    return database


FILTERS = [
    (TaskFilter(), "321"),
    (TaskFilter(states=[State.QUEUED]), "31"),
    (TaskFilter(states=[State.QUEUED, State.SUCCEEDED]), "321"),
    (TaskFilter(states=[]), ""),
    (TaskFilter(workload=Workload.SFT), "2"),
    (TaskFilter(since="2026-11-02T00:00:00.000Z"), "32"),
    (TaskFilter(until="2026-11-02T00:00:00.000Z"), "1"),
    (TaskFilter(since="2026-11-01T00:00:00.001Z", until="2026-11-03T00:00:00.000Z"), "2"),
    (TaskFilter(text="FIRST"), "1"),
    (TaskFilter(text="ppo-3"), "3"),
    (TaskFilter(text="t_T"), "1"),
    (TaskFilter(text="%"), "2"),
    (TaskFilter(text="alice"), "321"),
    (TaskFilter(text="bob"), ""),
    (TaskFilter(states=[State.QUEUED], workload=Workload.PPO, since="2026-11-02T00:00:00.000Z", text="ppo"), "3"),
    (TaskFilter(states=[State.SUCCEEDED], workload=Workload.PPO), ""),
]


@pytest.mark.parametrize(("task_filter", "expected"), FILTERS, ids=lambda value: str(value)[:60])
def test_filters_narrow_each_other_down(many: Database, task_filter: TaskFilter, expected: str) -> None:
    with many.read() as conn:
        assert "".join(task.task_id[-1] for task in store.page(conn, "alice", task_filter, limit=10)) == expected


def test_pages_follow_each_other_while_new_tasks_come(many: Database) -> None:
    with many.read() as conn:
        first = store.page(conn, "alice", TaskFilter(), limit=2)
    add(many, "mvp2-alice-ppo-5")
    with many.read() as conn:
        rest = store.page(conn, "alice", TaskFilter(), before=first[-1].seq, limit=2)
        assert ids([*first, *rest]) == ["mvp2-alice-ppo-3", "mvp2-alice-sft-2", "mvp2-alice-ppo-1"]
        assert store.page(conn, "alice", TaskFilter(), before=10**9 - 1, limit=1)[0].task_id == "mvp2-alice-ppo-5"


# --- attempts, events, conversions ------------------------------------------------------------------
def test_attempts_are_remembered_one_by_one(database: Database) -> None:
    for name in ("t1", "t2"):
        add(database, name)
    with database.write() as conn:
        for number in (1, 2):
            store.add_attempt(conn, Attempt("t1", number, f"t1--a{number:02}", AT))
            task = store.get_task(conn, "t1")
            assert task is not None and store.change(conn, task, AT, latest_attempt_no=number)
        first, second = store.attempts_of(conn, "t1")
        changed = store.change_attempt(
            conn,
            second,
            ray_status="FAILED",
            failure_kind=FailureKind.LOST,
            exit_code=-9,
            started_at=AT,
            ended_at=LATER,
            log_bytes=1 << 40,
        )
        assert store.attempts_of(conn, "t1") == [first, changed]
        assert (changed.failure_kind, changed.exit_code, changed.log_bytes) == (FailureKind.LOST, -9, 1 << 40)
        assert store.latest_attempts(conn, ["t1", "t2", "none"]) == {"t1": changed}
        assert store.latest_attempts(conn, []) == {}


def test_events_go_on_after_the_last_that_is_known(database: Database) -> None:
    add(database, "t1")
    add(database, "t2")
    with database.write() as conn:
        for number in range(5):
            store.add_event(conn, "t1", "RAY_STATUS", AT, {"number": number, "文": "字"})
        seen = store.events_of(conn, "t1")
        assert [event.detail.get("number") for event in seen] == [None, 0, 1, 2, 3, 4]
        assert seen[1].detail["文"] == "字"
        assert store.events_of(conn, "t1", after=seen[3].event_id) == seen[4:]
        assert store.events_of(conn, "t1", limit=2) == seen[:2]


def test_a_conversion_is_added_and_then_says_what_became_of_it(database: Database) -> None:
    add(database, "t1")
    begun = Conversion("t1", 1, "model.onnx", AT)
    made = Conversion("t1", 1, "model.onnx", AT, job_id="0b0c0d0e-0000-4000-8000-000000000000")
    other = Conversion("t1", 1, "model.onnx", LATER, problem="full")
    with database.write() as conn:
        for row in (begun, made, other):
            store.put_conversion(conn, row)
        assert store.conversions_of(conn, "t1") == [made, other]


def test_the_version_before_can_be_gone_back_to(database: Database) -> None:
    add(database, "t1")
    move(database, MIGRATIONS, "0002")
    upgrade(database, MIGRATIONS)
    with database.read() as conn:
        assert store.get_task(conn, "t1") is None
