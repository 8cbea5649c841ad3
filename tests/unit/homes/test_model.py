"""The pure side of data homes: names of users, names of files, what may go where, when things go."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.homes import names
from app.homes.errors import PathRefused
from app.homes.model import (
    HOME_FOLDERS,
    HomesOptions,
    Retention,
    check_may_enter,
    check_may_leave,
    check_user,
    removed_at,
)

ENDED = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize("name", ["local", "alice", "a.b-c_9", "x" * 32])
def test_a_user_may_be_called_so(name: str) -> None:
    assert HomesOptions(Path("/x")).logical(check_user(name)) == f"/private/users/{name}"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "../x",
        "Alice",
        "9a",
        ".a",
        "-a",
        "common",
        "root",
        "users",
        "a\n",
        "a b",
        "ａ",
        "é",
        "x" * 33,
        "a\0b",
    ],
)
def test_a_user_may_not_be_called_so(name: str) -> None:
    with pytest.raises(PathRefused, match="user"):
        HomesOptions(Path("/x")).logical(name)


def test_a_jobs_folder_goes_to_the_trash_after_three_days_and_seven_later_for_good() -> None:
    assert Retention().trash_at(ENDED) == ENDED + timedelta(days=3)
    assert Retention().purge_at(ENDED) == ENDED + timedelta(days=10)


def test_the_days_are_settings() -> None:
    retention = Retention(trash_after=timedelta(hours=1), purge_after=timedelta(hours=2))
    assert retention.trash_at(ENDED) == ENDED + timedelta(hours=1)
    assert retention.purge_at(ENDED) == ENDED + timedelta(hours=3)
    assert not retention.is_stale(ENDED, ENDED + timedelta(minutes=119))
    assert retention.is_stale(ENDED, ENDED + timedelta(hours=2))


@pytest.mark.parametrize("path", ["", *HOME_FOLDERS])
def test_the_folders_that_make_a_home_stay(path: str) -> None:
    with pytest.raises(PathRefused):
        check_may_leave(names.from_text(path))


@pytest.mark.parametrize("path", ["jobs/j1", "trash/jobs/j1", "trash/files/x", "datasets/a", "tmp/x", "of-mine"])
def test_what_lies_in_them_may_go(path: str) -> None:
    check_may_leave(names.from_text(path))


@pytest.mark.parametrize(
    "path", ["", "datasets", "models", "jobs/x", "jobs/j1/x", "trash/x", "trash/files/x", "tmp/x", "x"]
)
def test_nothing_is_put_where_it_would_be_cleared_away(path: str) -> None:
    with pytest.raises(PathRefused):
        check_may_enter(names.from_text(path))


@pytest.mark.parametrize("name", ["", "x", "-", "2026-11-20", "20261120T123015Z-x", "20261340T123015000000Z-x"])
def test_other_names_in_the_trash_tell_no_time(name: str) -> None:
    assert removed_at(name) is None


def test_names_that_only_look_alike_are_shown_apart() -> None:
    assert names.to_text("a\u202egnp.exe") == "a\\xe2\\x80\\xaegnp.exe"
    assert names.to_text("a\\x2fb") == "a\\x5cx2fb"
    assert names.to_text(os.fsdecode(b"\xff.npz")) == "\\xff.npz"
    assert names.to_text("資料（一）.csv") == "資料（一）.csv"


@pytest.mark.parametrize(
    "text",
    ["..", "a/../b", "\\x2e\\x2e", "a//b", "//a", "a/", "\\x2fetc", "a\\x00", "a\\b", "．．/a", "a／b", "x" * 256],
)
def test_tricks_in_a_text_are_refused(text: str) -> None:
    with pytest.raises(PathRefused, match="path"):
        names.from_text(text)


@pytest.mark.parametrize(
    "name", ["a\u202eb", "a\u200b", "a\n", "a\\b", "．．", "a⁄b", " a", "a ", os.fsdecode(b"\xff")]
)
def test_such_names_are_not_given(name: str) -> None:
    with pytest.raises(PathRefused):
        names.check_new_name(name)
