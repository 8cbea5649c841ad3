"""The users' verbs on their own: races with the scheduler, wake-ups, the end of a log, what is found in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.homes.model import HomesOptions
from app.homes.service import Homes
from app.kit.clock import to_text
from app.kit.sql import Database
from app.training import store
from app.training.errors import BadSpec, LogMissing, TaskFinished, TaskNotFound, TaskNotReleasable
from app.training.model import (
    RELEASE_AFTER,
    Attempt,
    Event,
    Priority,
    State,
    Task,
    WaitingCode,
    WaitingReason,
    submission_id,
)
from app.training.service import Tasks, TaskView, TrainingOptions, submission
from app.training.store import TaskIdTaken

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
AT = to_text(NOW)
SPEC = b"workload: script\ncode_path: /private/common/code/digits\n"


@pytest.fixture
def homes(tmp_path: Path, database: Database) -> Homes:
    made = Homes(HomesOptions(tmp_path / "homes"), database, None)
    made.files.create("alice")
    program = made.options.root / "common" / "code" / "digits" / "train.py"
    program.parent.mkdir(parents=True)
    program.touch()
    return made


@pytest.fixture
def wakes() -> list[int]:
    """How many tasks were to be seen by others at each wake-up."""
    return []


@pytest.fixture
def tasks(homes: Homes, database: Database, wakes: list[int]) -> Tasks:
    def wake() -> None:
        with database.read() as conn:
            wakes.append(store.count_unended(conn))

    return Tasks(TrainingOptions(is_on=True, homes_root="/private"), database, homes, wake)


@pytest.fixture
def task(tasks: Tasks) -> Task:
    return tasks.submit("alice", SPEC, now=NOW)[0]


@pytest.fixture
def run(database: Database) -> Callable[..., Task]:
    """What the scheduler does to a task that runs."""

    def make(task: Task, *events: Event, ended: bool = False) -> Task:
        with database.write() as conn:
            for event in (Event.ADMIT, Event.ACCEPT, Event.START, *events):
                task = store.apply(conn, task, event, AT) or pytest.fail("it was changed meanwhile")
            name = submission_id(task.task_id, 1)
            store.add_attempt(conn, attempt := Attempt(task.task_id, 1, name, AT))
            if ended:
                store.change_attempt(conn, attempt, ended_at=AT)
            return store.change(conn, task, AT, latest_attempt_no=1) or pytest.fail("it was changed meanwhile")

    return make


@pytest.fixture
def folder(homes: Homes, task: Task) -> Iterator[Path]:
    """Of the first attempt."""
    name = submission_id(task.task_id, 1)
    homes.folders.begun("alice", name, now=NOW)
    made = homes.options.root / "users" / "alice" / "jobs" / name
    made.mkdir()
    yield made


# --- submitting -----------------------------------------------------------------------------------
def test_the_scheduler_is_woken_when_the_task_is_there_to_be_seen(tasks: Tasks, wakes: list[int]) -> None:
    tasks.submit("alice", SPEC, idempotency_key="k", now=NOW)
    assert wakes == [1]
    tasks.submit("alice", SPEC, idempotency_key="k", now=NOW)
    assert wakes == [1]  # it was there already


def test_the_bundled_digits_task_brings_its_program(tasks: Tasks, homes: Homes) -> None:
    tasks.submit("alice", SPEC + b"program: train_torch.py\n", now=NOW)
    assert (homes.options.root / "common/code/digits/train_torch.py").is_file()


def test_two_tasks_of_one_second_that_drew_the_same_id_get_two(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["same", "same", "same", "other"])
    monkeypatch.setattr(submission, "new_task_id", lambda *_: next(drawn))
    assert [tasks.submit("alice", SPEC, now=NOW)[0].task_id for _ in range(2)] == ["same", "other"]


def test_ids_that_never_differ_are_given_up_on(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "new_task_id", lambda *_: "same")
    tasks.submit("alice", SPEC, now=NOW)
    with pytest.raises(TaskIdTaken):
        tasks.submit("alice", SPEC, now=NOW)


def test_the_same_key_gives_the_first_task_even_when_it_could_not_be_submitted_any_more(
    tasks: Tasks, homes: Homes
) -> None:
    first, _ = tasks.submit("alice", SPEC, idempotency_key="k", now=NOW)
    (homes.options.root / "common" / "code" / "digits" / "train.py").unlink()
    again, is_new = tasks.submit("alice", SPEC, idempotency_key="k", now=NOW)
    assert (again.task_id, is_new) == (first.task_id, False)


# --- cancelling -----------------------------------------------------------------------------------
def test_cancelling_decides_anew_when_the_scheduler_was_faster(
    tasks: Tasks, task: Task, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, tried = store.apply, list[State]()

    def apply(conn: object, seen: Task, event: Event, at: str, **fields: object) -> Task | None:
        tried.append(seen.state)
        if len(tried) > 1:
            return real(conn, seen, event, at, **fields)  # type: ignore[arg-type]
        real(conn, seen, Event.ADMIT, AT)  # type: ignore[arg-type]  # in between
        return real(conn, seen, event, at, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "apply", apply)
    assert tasks.changes.cancel("alice", task.task_id, now=NOW).state is State.CANCELING
    assert tried == [State.QUEUED, State.SUBMITTING]


def test_a_running_task_is_being_stopped_and_says_so_once(
    tasks: Tasks, task: Task, run: Callable[..., Task], wakes: list[int]
) -> None:
    run(task)
    for _ in range(2):
        seen = tasks.changes.cancel("alice", task.task_id, now=NOW)
        assert (seen.state, seen.cancel_requested_at) == (State.CANCELING, AT)
    kinds = [event.kind for event in tasks.events("alice", task.task_id)]
    assert kinds.count("CANCEL_REQUESTED") == 1
    assert len(wakes) == 2  # of the submission, and of the first cancellation


def test_all_that_has_not_ended_of_a_user_is_cancelled_and_nothing_of_others(
    tasks: Tasks, task: Task, run: Callable[..., Task]
) -> None:
    running, done = (tasks.submit("alice", SPEC, now=NOW)[0] for _ in range(2))
    others, _ = tasks.submit("bob", SPEC, now=NOW)
    run(running)
    run(done, Event.SUCCEED)
    assert tasks.count_unended("alice") == 2
    tasks.changes.cancel_all("alice")
    states = [tasks.get("alice", one.task_id).task.state for one in (task, running, done)]
    assert states == [State.CANCELED, State.CANCELING, State.SUCCEEDED]
    assert tasks.get("bob", others.task_id).task.state is State.QUEUED


def test_what_has_ended_otherwise_cannot_be_cancelled(tasks: Tasks, task: Task, run: Callable[..., Task]) -> None:
    run(task, Event.FAIL)
    with pytest.raises(TaskFinished, match="FAILED"):
        tasks.changes.cancel("alice", task.task_id, now=NOW)


# --- letting go of what does not stop -------------------------------------------------------------
def test_what_ray_does_not_say_to_have_ended_is_let_go_after_a_time_and_says_that_it_may_still_run(
    tasks: Tasks, task: Task, run: Callable[..., Task], wakes: list[int]
) -> None:
    run(task)
    tasks.changes.cancel("alice", task.task_id, now=NOW)
    before = tasks.get("alice", task.task_id)
    assert (before.task.releasable_from, before.may_still_run) == (NOW + RELEASE_AFTER, False)
    released = tasks.changes.release("alice", task.task_id, now=NOW + RELEASE_AFTER)
    assert (released.state, released.ended_at) == (State.CANCELED, to_text(NOW + RELEASE_AFTER))
    assert "may still run" in released.error_summary
    after = tasks.get("alice", task.task_id)
    assert (after.task.releasable_from, after.may_still_run) == (None, True)
    assert tasks.count_unended("alice") == 0
    (event,) = [it for it in tasks.events("alice", task.task_id) if it.detail.get("to") == "CANCELED"]
    assert event.detail == {"from": "CANCELING", "to": "CANCELED", "by": "alice", "released": True}
    assert tasks.changes.release("alice", task.task_id, now=NOW + 2 * RELEASE_AFTER) == released
    assert len(wakes) == 3  # of the submission, the cancellation and the first release


def test_nothing_is_let_go_before_ray_had_its_time(tasks: Tasks, task: Task, run: Callable[..., Task]) -> None:
    run(task)
    with pytest.raises(TaskNotReleasable, match="not being cancelled"):
        tasks.changes.release("alice", task.task_id, now=NOW + RELEASE_AFTER)
    tasks.changes.cancel("alice", task.task_id, now=NOW)
    with pytest.raises(TaskNotReleasable) as refused:
        tasks.changes.release("alice", task.task_id, now=NOW + RELEASE_AFTER - timedelta(seconds=90))
    assert refused.value.detail == {"retry_after_s": 90}
    assert tasks.get("alice", task.task_id).task.state is State.CANCELING


def test_what_has_ended_by_itself_is_not_let_go(tasks: Tasks, task: Task, run: Callable[..., Task]) -> None:
    run(task, Event.SUCCEED, ended=True)
    with pytest.raises(TaskFinished, match="SUCCEEDED"):
        tasks.changes.release("alice", task.task_id, now=NOW)


def test_an_administrator_lets_go_of_anybodys_and_others_of_their_own_alone(
    tasks: Tasks, task: Task, run: Callable[..., Task]
) -> None:
    run(task)
    tasks.changes.cancel("alice", task.task_id, now=NOW)
    with pytest.raises(TaskNotFound):
        tasks.changes.release("bob", task.task_id, now=NOW + RELEASE_AFTER)
    released = tasks.changes.release("root", task.task_id, now=NOW + RELEASE_AFTER, is_admin=True)
    assert released.state is State.CANCELED
    assert "root" in released.error_summary


@pytest.mark.parametrize("name", ["none", "\0", "ä", "x" * 5000, ""])
def test_no_such_task(tasks: Tasks, name: str) -> None:
    with pytest.raises(TaskNotFound):
        tasks.get("alice", name)


# --- logs -----------------------------------------------------------------------------------------
def test_before_it_was_submitted_to_ray_there_is_no_log(tasks: Tasks, task: Task) -> None:
    with pytest.raises(LogMissing, match="not been submitted"):
        tasks.log("alice", task.task_id)


def test_a_task_that_never_ran_has_no_log(tasks: Tasks, task: Task) -> None:
    tasks.changes.cancel("alice", task.task_id, now=NOW)
    with pytest.raises(LogMissing, match="never ran"):
        tasks.log("alice", task.task_id)


def test_a_log_that_is_still_to_come_is_told_from_one_that_never_was(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path, database: Database
) -> None:
    run(task)
    with pytest.raises(LogMissing, match="no log yet"):
        tasks.log("alice", task.task_id)
    with database.write() as conn:
        store.change_attempt(conn, store.attempts_of(conn, task.task_id)[0], ended_at=AT)
    with pytest.raises(LogMissing, match="left no log"):
        tasks.log("alice", task.task_id)


def test_an_attempt_that_there_is_not_has_no_log(tasks: Tasks, task: Task, run: Callable[..., Task]) -> None:
    run(task)
    with pytest.raises(LogMissing, match="no attempt 2") as raised:
        tasks.log("alice", task.task_id, attempt_no=2)
    assert raised.value.hint.endswith(": 1.")


@pytest.mark.parametrize("tail", [1, 200, 1000, 2000, 5000])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_last_lines_are_those_asked_for(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path, tail: int, end: bytes
) -> None:
    run(task)
    lines = [f"line {number} {'x' * (number % 300)}".encode() for number in range(6000)]
    (folder / "driver.log").write_bytes(b"\n".join(lines) + end)
    seen = tasks.log("alice", task.task_id, tail=tail)
    assert seen.data == b"\n".join(lines[-tail:]) + end
    assert (seen.lines, seen.is_whole, seen.attempt.attempt_no) == (tail, False, 1)
    assert seen.size_bytes == (folder / "driver.log").stat().st_size


@pytest.mark.parametrize(("text", "lines"), [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\n", 1), (b"a\n\nb", 3)])
def test_a_short_log_is_all_there_is(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path, text: bytes, lines: int
) -> None:
    run(task)
    (folder / "driver.log").write_bytes(text)
    seen = tasks.log("alice", task.task_id, tail=5)
    assert (seen.data, seen.lines, seen.is_whole) == (text, lines, True)


def test_of_a_huge_log_no_more_is_read_than_is_shown(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(task)
    with (folder / "driver.log").open("wb") as file:
        file.seek(1 << 30)  # a hole
        file.write(b"\n" + b"".join(b"line %d\n" % number for number in range(5000)))
    read, real = [0], os.pread

    def counted(fd: int, size: int, at: int) -> bytes:
        read[0] += size
        return real(fd, size, at)

    monkeypatch.setattr(os, "pread", counted)
    assert tasks.log("alice", task.task_id, tail=2000).text.splitlines()[-1] == "line 4999"
    assert read[0] < 1 << 20


@pytest.mark.slow
def test_a_log_without_ends_of_lines_is_cut(tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path) -> None:
    run(task)
    (folder / "driver.log").write_bytes(b"x" * (20 << 20))
    seen = tasks.log("alice", task.task_id, tail=1)
    assert len(seen.data) < 10 << 20 and not seen.is_whole


def test_bytes_that_are_no_text_do_not_keep_a_log_from_being_shown(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path
) -> None:
    run(task)
    (folder / "driver.log").write_bytes(b"\xff\xfe ok\n")
    assert tasks.log("alice", task.task_id).text == "\ufffd\ufffd ok\n"


@pytest.mark.parametrize("target", ["/etc/passwd", "../other.log", "../../datasets/other.log"])
def test_a_link_that_a_job_left_for_its_log_is_not_followed(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path, target: str
) -> None:
    run(task)
    for place in (folder.parent / "other.log", folder.parent.parent / "datasets" / "other.log"):
        place.write_text("not the log")
    (folder / "driver.log").symlink_to(target)
    with pytest.raises(LogMissing, match=r"driver\.log leads out"):
        tasks.log("alice", task.task_id)


def test_a_pipe_in_place_of_the_log_keeps_nobody_waiting(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path
) -> None:
    run(task)
    os.mkfifo(folder / "driver.log")
    with pytest.raises(LogMissing, match="is no file"):
        tasks.log("alice", task.task_id)


def test_a_log_follows_its_folder_into_the_trash_and_is_gone_with_it(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path, homes: Homes
) -> None:
    run(task, Event.SUCCEED, ended=True)
    (folder / "driver.log").write_text("kept\n")
    homes.folders.ended("alice", folder.name, NOW)
    homes.clear(NOW + timedelta(days=4))
    assert not folder.exists()
    assert tasks.log("alice", task.task_id).text == "kept\n"
    shown = tasks.get("alice", task.task_id).folders[1]
    assert shown.is_trashed and shown.path.startswith("/private/users/alice/trash/jobs/")
    homes.clear(NOW + timedelta(days=11))
    with pytest.raises(LogMissing, match="is gone") as raised:
        tasks.log("alice", task.task_id)
    assert "2026-11-11" in raised.value.hint
    gone = tasks.get("alice", task.task_id).folders[1]
    assert (gone.path, gone.purge_at) == ("", NOW + timedelta(days=10))


# --- artifacts ------------------------------------------------------------------------------------
def test_the_models_of_a_task_that_succeeded_are_found(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path
) -> None:
    run(task, Event.SUCCEED)
    for name in ("model.onnx", "export/b.onnx", "a/b/c.onnx", "a/b/c/too-deep.onnx", "notes.txt", "dir.onnx/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "link.onnx").symlink_to("model.onnx")
    (folder / "linked").symlink_to("export")
    (folder / os.fsdecode(b"\xff.onnx")).touch()
    assert tasks.get("alice", task.task_id).artifacts == ["a/b/c.onnx", "export/b.onnx", "model.onnx"]


def test_very_many_checkpoints_neither_hide_a_model_beside_them_nor_are_all_looked_at(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.training.service.folders.MOST_ENTRIES", 50)  # in place of 5000
    run(task, Event.SUCCEED)
    (folder / "aaa").mkdir()
    for number in range(60):
        (folder / "aaa" / f"{number}.onnx").touch()
    (folder / "model.onnx").touch()
    artifacts = tasks.get("alice", task.task_id).artifacts
    assert "model.onnx" in artifacts and len(artifacts) <= 50


@pytest.mark.parametrize("events", [(), (Event.FAIL,)])
def test_a_task_that_has_not_succeeded_left_nothing(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path, events: tuple[Event, ...]
) -> None:
    run(task, *events)
    (folder / "model.onnx").touch()
    assert tasks.get("alice", task.task_id).artifacts == []


def test_a_task_is_shown_while_the_disk_is_away(
    tasks: Tasks, task: Task, run: Callable[..., Task], folder: Path, homes: Homes
) -> None:
    run(task, Event.SUCCEED)
    (homes.options.root / "users").rename(homes.options.root / "elsewhere")
    seen = tasks.get("alice", task.task_id)
    assert (seen.task.state, seen.artifacts) == (State.SUCCEEDED, [])


# --- why it waits ---------------------------------------------------------------------------------
def test_how_many_come_first_is_counted_when_it_is_asked_for(tasks: Tasks, task: Task, database: Database) -> None:
    second, _ = tasks.submit("alice", SPEC, now=NOW)
    with database.write() as conn:
        store.apply(conn, second, Event.WAIT, AT, waiting=WaitingReason(WaitingCode.BEHIND))
    assert tasks.get("alice", second.task_id).waiting_reason == "waiting: 1 task comes first"
    tasks.changes.cancel("alice", task.task_id, now=NOW)
    listed, _ = tasks.page("alice", store.TaskFilter())
    assert [view.waiting_reason for view in listed] == ["waiting: 0 tasks come first", ""]


def test_a_task_that_nobody_has_looked_at_says_so_and_one_that_runs_says_nothing(
    task: Task, run: Callable[..., Task]
) -> None:
    assert "has not looked" in TaskView(task).waiting_reason
    assert TaskView(run(task)).waiting_reason == ""


# --- priority ---------------------------------------------------------------------------------------
def test_a_task_that_waits_becomes_more_or_less_urgent(tasks: Tasks, task: Task) -> None:
    assert tasks.changes.set_priority("alice", task.task_id, Priority.LOW, now=NOW).priority is Priority.LOW
    assert tasks.get("alice", task.task_id).task.priority is Priority.LOW
    assert tasks.events("alice", task.task_id)[-1].detail == {"by": "alice", "from": "normal", "to": "low"}


def test_only_administrators_make_a_task_urgent_and_anybodys(tasks: Tasks, task: Task) -> None:
    with pytest.raises(BadSpec, match="only administrators"):
        tasks.changes.set_priority("alice", task.task_id, Priority.HIGH, now=NOW)
    with pytest.raises(BadSpec, match="only administrators"):
        tasks.submit("alice", SPEC + b"priority: high\n", now=NOW)
    with pytest.raises(TaskNotFound):
        tasks.changes.set_priority("bob", task.task_id, Priority.LOW, now=NOW)
    raised = tasks.changes.set_priority("bob", task.task_id, Priority.HIGH, now=NOW, is_admin=True)
    assert raised.priority is Priority.HIGH


def test_the_priority_of_what_waits_no_more_stays(tasks: Tasks, task: Task, run: Callable[..., Task]) -> None:
    run(task)
    with pytest.raises(TaskFinished, match="does not wait any more"):
        tasks.changes.set_priority("alice", task.task_id, Priority.LOW, now=NOW)
