"""How much a home may hold: where an upload ends, what counts, when it is measured."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.homes.errors import NameTaken, QuotaExceeded, TooManyFiles
from app.homes.files import HomeFiles
from app.homes.model import HOME_FOLDERS, HomesOptions, Quota
from app.homes.quota import Measurement, UsageTracker
from tests.harness.until import PATIENCE_S


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "private"


@pytest.fixture
def files(root: Path) -> HomeFiles:
    """Seven bytes are there already."""
    made = HomeFiles(HomesOptions(root))
    made.create("alice")
    (root / "users/alice/jobs/weights").write_bytes(b"weights")
    return made


@pytest.fixture
def home(root: Path, files: HomeFiles) -> Path:
    return root / "users" / "alice"


def content(files: HomeFiles, path: str) -> bytes:
    return b"".join(files.read("alice", path))


def put(files: HomeFiles, path: str, data: bytes, *, quota_bytes: int | None = None, replace: bool = False) -> None:
    quota = files.options.quota(quota_bytes)
    files.write("alice", path, [data], quota=quota, replace=replace)


def everything_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_an_upload_beyond_the_quota_ends_in_the_middle_and_leaves_nothing(files: HomeFiles, home: Path) -> None:
    sent = []

    def chunks() -> Iterator[bytes]:
        for number in range(100):
            sent.append(number)
            yield b"x" * 10

    before = everything_below(home)
    with pytest.raises(QuotaExceeded) as raised:
        files.write("alice", "datasets/d", chunks(), quota=Quota(57))
    assert raised.value.status == 413
    assert raised.value.detail["quota_bytes"] == 57
    assert len(sent) == 6  # the seven bytes of weights are in the home already
    assert everything_below(home) == before
    put(files, "datasets/d", b"x" * 50, quota_bytes=57)
    with pytest.raises(QuotaExceeded):
        put(files, "datasets/e", b"x", quota_bytes=57)


def test_the_quota_of_the_installation_holds_for_who_has_none_and_zero_is_none(root: Path, files: HomeFiles) -> None:
    files = HomeFiles(HomesOptions(root, quota_bytes=10))
    with pytest.raises(QuotaExceeded):
        put(files, "datasets/d", b"x" * 20)
    put(files, "datasets/d", b"x" * 20, quota_bytes=100)
    put(files, "datasets/e", b"x" * 20, quota_bytes=0)
    assert files.usage("alice").quota.size_bytes == 10


def test_a_file_that_is_replaced_makes_room_for_its_successor(files: HomeFiles) -> None:
    put(files, "datasets/d", b"x" * 50, quota_bytes=60)
    put(files, "datasets/d", b"x" * 52, quota_bytes=60, replace=True)
    assert files.usage("alice").total_bytes == 59
    with pytest.raises(QuotaExceeded):
        put(files, "datasets/d", b"x" * 54, quota_bytes=60, replace=True)
    assert content(files, "datasets/d") == b"x" * 52
    assert files.usage("alice").total_bytes == 59


def test_two_uploads_at_once_do_not_pass_the_quota_together(files: HomeFiles, home: Path) -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)
    ends: list[object] = []

    def upload(name: str) -> None:
        def chunks() -> Iterator[bytes]:
            yield b"x" * 40
            both.wait()
            yield b"x" * 40

        try:
            ends.append(files.write("alice", f"datasets/{name}", chunks(), quota=Quota(7 + 130)))
        except QuotaExceeded as error:
            ends.append(error)

    threads = [threading.Thread(target=upload, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(end, QuotaExceeded) for end in ends) == 1
    assert len(list((home / "datasets").iterdir())) == 1
    assert list((home / "tmp").iterdir()) == []
    assert files.usage("alice").total_bytes == 7 + 80


def test_usage_is_measured_again_after_its_time(root: Path, files: HomeFiles, home: Path) -> None:
    clock = [0.0]
    files = HomeFiles(HomesOptions(root), tracker=UsageTracker(10, lambda: clock[0]))
    assert files.usage("alice").total_bytes == 7
    put(files, "models/m", b"12345")
    (home / "datasets" / "by-sftp").write_bytes(b"x" * 100)
    (home / "loose").write_bytes(b"xxx")
    assert files.usage("alice").total_bytes == 12
    clock[0] = 10.0
    usage = files.usage("alice")
    assert usage.total_bytes == 115
    assert usage.folders == {"": 3, "code": 0, "datasets": 100, "jobs": 7, "models": 5, "tmp": 0, "trash": 0}


def test_a_home_that_takes_long_to_measure_is_measured_less_often() -> None:
    clock = [0.0]
    measured = []

    def measure() -> Measurement:
        measured.append(clock[0])
        clock[0] += 5
        return Measurement({"": 1}, 0)

    tracker = UsageTracker(10, lambda: clock[0])
    for moment in (0.0, 54.0, 56.0):
        clock[0] = max(clock[0], moment)
        tracker.usage("alice", Quota(), measure)
    assert measured == [0.0, 56.0]


def test_what_adds_nothing_fits_into_a_full_home_and_not_into_one_that_holds_too_much(files: HomeFiles) -> None:
    files.write("alice", "datasets/empty", [], quota=Quota(7))
    with pytest.raises(QuotaExceeded):
        files.write("alice", "datasets/other", [], quota=Quota(6))


# --- how many files ---------------------------------------------------------------------------------
def test_files_and_folders_beyond_the_limit_are_refused_with_what_to_do(files: HomeFiles, home: Path) -> None:
    three = Quota(files=3)  # one is there already
    files.write("alice", "datasets/a", [b""], quota=three)
    files.make_folder("alice", "datasets/b", quota=three)
    before = everything_below(home)
    for attempt in (files.make_folder, lambda *where, quota: files.write(*where, [b""], quota=quota)):
        with pytest.raises(TooManyFiles, match="3 files and folders") as raised:
            attempt("alice", "datasets/c", quota=three)
        assert raised.value.detail == {"quota_files": 3, "used_files": 3} and "archive" in raised.value.hint
    assert everything_below(home) == before
    files.write("alice", "datasets/a", [b"x"], quota=three, replace=True)  # no more than before
    assert files.usage("alice").files == 3


def test_what_goes_for_good_makes_room_and_what_lies_in_the_trash_does_not(files: HomeFiles) -> None:
    two = Quota(files=2)
    files.write("alice", "datasets/a", [b""], quota=two)
    trashed = files.remove("alice", "datasets/a", now=datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(TooManyFiles):
        files.make_folder("alice", "datasets/b", quota=two)
    assert trashed is not None
    files.remove("alice", trashed, now=datetime(2026, 1, 1, tzinfo=UTC))
    files.make_folder("alice", "datasets/b", quota=two)


def test_what_was_not_made_does_not_count(files: HomeFiles) -> None:
    three = Quota(files=3)
    files.make_folder("alice", "datasets/a", quota=three)
    for _ in range(3):
        with pytest.raises(NameTaken):
            files.make_folder("alice", "datasets/a", quota=three)
        with pytest.raises(ZeroDivisionError):
            files.write("alice", "datasets/b", (bytes(1 // number) for number in (1, 0)), quota=three)
    assert files.usage("alice").files == 2


def test_what_went_is_measured_only_when_something_would_be_refused() -> None:
    tracker, measured = UsageTracker(10, lambda: 0.0), []

    def measure() -> Measurement:
        measured.append(True)
        return Measurement({"": 10}, len(HOME_FOLDERS))

    allowance = tracker.allowance("alice", "", Quota(30), measure)
    allowance.take(10)
    tracker.forget("alice")
    allowance.take(10)
    assert len(measured) == 1
    allowance.take(15)  # with what went there is room
    assert len(measured) == 2
    with pytest.raises(QuotaExceeded):
        allowance.take(15)
