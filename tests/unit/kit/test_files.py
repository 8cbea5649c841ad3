"""Files that are written whole, and the digest of one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from app.kit.files import SHARED, sha256_of, write_whole


def test_it_replaces_what_was_there_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "work.json"
    write_whole(path, "a long first text")
    write_whole(path, "é")
    assert path.read_text("utf-8") == "é"
    assert list(path.parent.iterdir()) == [path]


def test_its_owner_alone_reads_it_unless_it_is_shared(tmp_path: Path) -> None:
    write_whole(tmp_path / "own", "secret")
    write_whole(tmp_path / "shared", "tally", mode=SHARED)
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "shared").stat().st_mode & 0o400


def test_what_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "work"
    write_whole(path, "old")
    (tmp_path / "work.new").mkdir()
    with pytest.raises(OSError, match=r"work\.new"):
        write_whole(path, "new")
    assert path.read_text() == "old"


@pytest.mark.parametrize("content", [b"", b"abc", b"x" * 1_000_001])
def test_it_is_the_sha256_of_its_content(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()
