"""The folders of jobs go into the trash and out of it by the clock, and nothing else ever goes."""

from __future__ import annotations

import ctypes
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.accounts.service.audit_log import AuditLog
from app.homes import retention, store
from app.homes.errors import NameTaken, PathRefused
from app.homes.model import HomesOptions
from app.homes.rooted_directory import RootedDirectory
from app.homes.service import Homes
from app.kit.sql import Database
from tests.harness.name_swap import swapping

END = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def homes(tmp_path: Path, database: Database) -> Homes:
    made = Homes(HomesOptions(tmp_path / "homes"), database, None)
    made.files.create("alice")
    return made


@pytest.fixture
def home(homes: Homes) -> Path:
    return homes.options.root / "users" / "alice"


def job(homes: Homes, name: str, *, user: str = "alice", ended_at: datetime | None = END) -> Path:
    """The folder of a job, with 5 bytes in it."""
    homes.folders.begun(user, name, now=END - DAY)
    folder = homes.options.root / "users" / user / "jobs" / name
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last").write_bytes(b"12345")
    if ended_at:
        homes.folders.ended(user, name, ended_at)
    return folder


def actions(database: Database) -> list[tuple[str, str, object]]:
    entries = AuditLog(database).entries(subject="user:alice")
    return [(entry.action, entry.detail["path"], entry.detail["size_bytes"]) for entry in reversed(entries)]


# --- by the clock -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("age", "where"),
    [
        (2 * DAY + 23 * HOUR, "jobs"),
        (3 * DAY, "trash/jobs"),
        (9 * DAY + 23 * HOUR, "trash/jobs"),
        (10 * DAY, None),
        (400 * DAY, None),
    ],
)
@pytest.mark.parametrize("is_hourly", [True, False], ids=["every pass", "the only pass"])
def test_a_folder_is_where_its_age_says(
    homes: Homes, home: Path, age: timedelta, where: str | None, *, is_hourly: bool
) -> None:
    job(homes, "run-1")
    if is_hourly:
        for step in (DAY, 3 * DAY, 9 * DAY):
            homes.clear(END + min(step, age))
    homes.clear(END + age)
    places = [place for place in ("jobs", "trash/jobs") if (home / place / "run-1").exists()]
    assert places == ([where] if where else [])


def test_a_job_that_runs_keeps_its_folder_however_old_it_is(homes: Homes, home: Path) -> None:
    job(homes, "run-1", ended_at=None)
    homes.clear(END + 4000 * DAY)
    assert (home / "jobs" / "run-1" / "checkpoints" / "last").exists()


def test_a_job_that_began_again_keeps_its_folder(homes: Homes, home: Path) -> None:
    job(homes, "run-1")
    homes.folders.begun("alice", "run-1", now=END + DAY)
    homes.clear(END + 20 * DAY)
    assert (home / "jobs" / "run-1").exists()


def test_a_job_that_begins_again_while_the_janitor_works_keeps_its_folder(
    homes: Homes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job(homes, "run-1")

    def begin(directory: RootedDirectory, path: str) -> int:
        homes.folders.begun("alice", "run-1", now=END + 3 * DAY)
        return 0

    monkeypatch.setattr(retention, "_measure_size", begin)
    homes.clear(END + 3 * DAY)
    assert (home / "jobs" / "run-1").exists()
    assert homes.folders.times("alice")[0].ended_at is None


def test_an_end_that_is_told_twice_counts_from_the_first(homes: Homes, home: Path) -> None:
    job(homes, "run-1")
    homes.folders.ended("alice", "run-1", END + 2 * DAY)
    homes.clear(END + 3 * DAY)
    assert (home / "trash" / "jobs" / "run-1").exists()


def test_folders_that_nobody_told_of_are_left_alone_and_so_is_what_is_kept(homes: Homes, home: Path) -> None:
    for path in ("jobs/mine", "trash/jobs/mine", "models/run-1", "datasets/run-1"):
        (home / path).mkdir()
    job(homes, "run-1")
    homes.clear(END + 3 * DAY)
    homes.clear(END + 100 * DAY)
    for path in ("jobs/mine", "trash/jobs/mine", "models/run-1", "datasets/run-1"):
        assert (home / path).is_dir(), path


def test_removed_files_go_after_seven_days(homes: Homes, home: Path) -> None:
    (home / "datasets" / "old").write_text("x")
    trashed = homes.files.remove("alice", "datasets/old", now=END)
    assert trashed
    homes.clear(END + 6 * DAY + 23 * HOUR)
    assert (home / trashed).exists()
    homes.clear(END + 7 * DAY)
    assert not (home / trashed).exists()


# --- what users see ---------------------------------------------------------------------------------
def test_the_audit_has_path_and_size_of_what_went(homes: Homes, database: Database) -> None:
    job(homes, "run-1")
    homes.clear(END + 3 * DAY)
    homes.clear(END + 10 * DAY)
    assert actions(database) == [
        ("JOB_TRASHED", "/private/users/alice/jobs/run-1", 5),
        ("JOB_PURGED", "/private/users/alice/trash/jobs/run-1", 5),
    ]


def test_the_dates_are_told_before_anything_happens(homes: Homes) -> None:
    job(homes, "run-1")
    job(homes, "run-2", ended_at=None)
    ended, running = homes.folders.times("alice", ["run-1", "run-2"])
    assert (ended.trash_at, ended.purge_at, ended.is_trashed) == (END + 3 * DAY, END + 10 * DAY, False)
    assert ended.path == "/private/users/alice/jobs/run-1"
    assert (running.trash_at, running.purge_at) == (None, None)
    homes.clear(END + 3 * DAY)
    (ended,) = homes.folders.times("alice", ["run-1"])
    assert (ended.path, ended.is_trashed) == ("/private/users/alice/trash/jobs/run-1", True)


def test_what_a_user_took_out_of_the_trash_is_not_audited_as_deleted(
    homes: Homes, home: Path, database: Database
) -> None:
    job(homes, "run-1")
    homes.clear(END + 3 * DAY)
    homes.files.move("alice", "trash/jobs/run-1", "models/kept")
    homes.clear(END + 10 * DAY)
    assert (home / "models" / "kept" / "checkpoints" / "last").exists()
    assert [action for action, *_ in actions(database)] == ["JOB_TRASHED"]
    assert homes.folders.times("alice") == []


# --- accidents --------------------------------------------------------------------------------------
def test_a_crash_between_the_move_and_its_record_is_caught_up_with(
    homes: Homes, home: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    job(homes, "run-1")

    def crash(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(store, "change_folder", crash)
        homes.clear(END + 3 * DAY)
    assert (home / "trash" / "jobs" / "run-1").exists()
    assert actions(database) == []
    homes.clear(END + 3 * DAY + HOUR)
    assert homes.folders.times("alice")[0].is_trashed
    assert [action for action, *_ in actions(database)] == ["JOB_TRASHED"]
    homes.clear(END + 10 * DAY)
    assert not (home / "trash" / "jobs" / "run-1").exists()


def test_a_crash_between_deleting_and_its_record_is_caught_up_with(
    homes: Homes, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job(homes, "run-1")
    homes.clear(END + 3 * DAY)

    def crash(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(store, "change_folder", crash)
        homes.clear(END + 10 * DAY)
    assert not (home / "trash" / "jobs" / "run-1").exists()
    homes.clear(END + 10 * DAY)
    assert homes.folders.times("alice") == []


@pytest.mark.slow
def test_two_passes_at_once_move_and_delete_each_folder_once(homes: Homes, home: Path, database: Database) -> None:
    for number in range(120):
        job(homes, f"run-{number}")
    for moment in (END + 3 * DAY, END + 10 * DAY):
        passes = [threading.Thread(target=homes.clear, args=(moment,)) for _ in range(3)]
        for one in passes:
            one.start()
        for one in passes:
            one.join()
    assert list((home / "jobs").iterdir()) == list((home / "trash" / "jobs").iterdir()) == []
    entries = AuditLog(database).entries(limit=1000)
    assert sorted(entry.action for entry in entries) == ["JOB_PURGED"] * 120 + ["JOB_TRASHED"] * 120


def test_a_name_that_the_trash_has_already_costs_nothing(homes: Homes, home: Path) -> None:
    (home / "trash" / "jobs" / "run-1").mkdir()
    (home / "trash" / "jobs" / "run-1" / "of the user").write_text("x")
    job(homes, "run-1")
    homes.clear(END + 3 * DAY)
    (times,) = homes.folders.times("alice")
    assert times.path.endswith("trash/jobs/run-1.1")
    homes.clear(END + 10 * DAY)
    assert [path.name for path in (home / "trash" / "jobs").iterdir()] == ["run-1"]


def test_a_job_may_not_take_the_name_of_one_in_the_trash(homes: Homes) -> None:
    job(homes, "run-1")
    homes.clear(END + 3 * DAY)
    with pytest.raises(NameTaken):
        homes.folders.begun("alice", "run-1", now=END + 4 * DAY)
    homes.clear(END + 10 * DAY)
    homes.folders.begun("alice", "run-1", now=END + 11 * DAY)
    assert homes.folders.times("alice")[0].ended_at is None


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_trash_on_another_file_system_is_a_problem_that_is_told(homes: Homes, home: Path) -> None:
    folder = job(homes, "run-1")
    trash = home / "trash" / "jobs"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", os.fsencode(trash), b"tmpfs", 0, None):
        pytest.skip("nothing can be mounted here")
    try:
        homes.clear(END + 11 * DAY)
        assert folder.exists()
        assert "different file systems" in (homes.folders.times("alice")[0].problem or "")
    finally:
        assert libc.umount(os.fsencode(trash)) == 0
    homes.clear(END + 11 * DAY)
    assert homes.folders.times("alice") == []
    assert not folder.exists()


# --- tricks -----------------------------------------------------------------------------------------
@pytest.fixture
def other(homes: Homes) -> Path:
    """Another user's home, with a job whose folder has the same name."""
    homes.files.create("bob")
    return job(homes, "run-1", user="bob", ended_at=None).parent.parent


@pytest.mark.parametrize("name", ["..", ".", "", "../bob", "a/b", "/etc", ".hidden", "a\0b", "a\u202eb", "x" * 256])
def test_what_is_no_name_of_a_folder_is_refused(homes: Homes, name: str) -> None:
    with pytest.raises(PathRefused):
        homes.folders.begun("alice", name, now=END)
    with pytest.raises(PathRefused):
        homes.folders.ended("alice", name, END)


@pytest.mark.parametrize("user", ["..", "../bob", "common", "a/b"])
def test_what_is_no_name_of_a_user_is_refused(homes: Homes, user: str) -> None:
    with pytest.raises(PathRefused):
        homes.folders.ended(user, "run-1", END)


def test_a_link_in_place_of_the_folder_goes_and_not_what_it_leads_to(homes: Homes, home: Path, other: Path) -> None:
    homes.folders.begun("alice", "run-1", now=END)
    (home / "jobs" / "run-1").symlink_to(other / "jobs" / "run-1")
    homes.folders.ended("alice", "run-1", END)
    homes.clear(END + 3 * DAY)
    homes.clear(END + 10 * DAY)
    assert not (home / "trash" / "jobs" / "run-1").is_symlink()
    assert (other / "jobs" / "run-1" / "checkpoints" / "last").exists()


@pytest.mark.parametrize("place", ["jobs", "trash"])
def test_a_link_in_place_of_a_folder_of_the_home_is_not_gone_through(
    homes: Homes, home: Path, other: Path, place: str
) -> None:
    job(homes, "run-1")
    (home / place).rename(home / "moved")
    (home / place).symlink_to(other / place)
    homes.clear(END + 11 * DAY)
    assert (other / "jobs" / "run-1" / "checkpoints" / "last").exists()
    assert list((other / "trash" / "jobs").iterdir()) == []
    assert "link" in (homes.folders.times("alice")[0].problem or "")


def test_a_link_inside_a_folder_is_deleted_and_not_what_it_leads_to(homes: Homes, other: Path) -> None:
    folder = job(homes, "run-1")
    (folder / "link").symlink_to(other / "jobs")
    homes.clear(END + 10 * DAY)
    assert not folder.exists()
    assert (other / "jobs" / "run-1" / "checkpoints" / "last").exists()


@pytest.mark.slow
def test_swapping_jobs_for_a_link_while_the_janitor_works_reaches_nobody_else(
    homes: Homes, home: Path, other: Path
) -> None:
    names = [f"run-{number}" for number in range(200)]
    for name in names:
        job(homes, name)
        if name != "run-1":
            job(homes, name, user="bob", ended_at=None)
    (home / "link").symlink_to(other / "jobs")
    with swapping(home / "link", home / "jobs"):
        for _ in range(5):
            homes.clear(END + 3 * DAY)
            homes.clear(END + 10 * DAY)
    assert sorted(path.name for path in (other / "jobs").iterdir()) == sorted(names)


def test_a_home_that_is_not_there_is_left_for_the_next_pass(homes: Homes, home: Path) -> None:
    job(homes, "run-1")
    home.rename(home.with_name("away"))
    homes.clear(END + 10 * DAY)
    home.with_name("away").rename(home)
    homes.clear(END + 10 * DAY)
    assert list((home / "jobs").iterdir()) == []
