"""How much a run may store, and that nothing it stores stays uncounted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.kit.sandbox import disk_usage

GIB = 1 << 30


@pytest.mark.parametrize(
    ("inputs", "free", "limit"),
    [
        (0, 100 * GIB, 4 * GIB),
        (GIB, 100 * GIB, 24 * GIB),
        (GIB, 10 * GIB, 5 * GIB),
        (GIB, 1 << 20, 64 << 20),
    ],
    ids=["small model", "large model", "little room", "no room"],
)
def test_the_allowance_follows_the_inputs_and_the_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: int, free: int, limit: int
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert disk_usage.allowance(tmp_path, inputs) == limit


def test_all_levels_count_as_they_occupy_the_disk(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    before = disk_usage.measure_stored(str(tmp_path))
    (tmp_path / "a" / "b" / "file").write_bytes(bytes(1 << 20))
    os.truncate(tmp_path / "a" / "b" / "file", 1 << 40)  # without blocks behind its first MiB
    (tmp_path / "a" / "link").symlink_to("/")
    assert 1 << 20 <= disk_usage.measure_stored(str(tmp_path)) - before <= 2 << 20


def test_a_folder_too_deep_to_be_read_does_not_hide_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(20):
        os.mkdir("x" * 250)  # noqa: PTH102
        os.chdir("x" * 250)
    assert disk_usage.measure_stored(str(tmp_path)) == disk_usage.UNMEASURABLE


def test_a_folder_that_is_gone_is_empty(tmp_path: Path) -> None:
    assert disk_usage.measure_stored(str(tmp_path / "gone")) == 0


def test_a_removed_file_counts_once_while_it_is_open(tmp_path: Path) -> None:
    before = disk_usage.nameless([os.getpid()])
    with (tmp_path / "file").open("wb") as file, os.fdopen(os.dup(file.fileno()), "wb"):
        file.write(bytes(1 << 20))
        file.flush()
        assert disk_usage.nameless([os.getpid()]) == before
        (tmp_path / "file").unlink()
        assert 1 << 20 <= disk_usage.nameless([os.getpid()]) - before < 2 << 20
