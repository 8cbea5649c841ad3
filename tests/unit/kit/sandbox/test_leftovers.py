"""What a child leaves in its folder leads nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.kit.sandbox.errors import StageFailed
from app.kit.sandbox.leftovers import file_within, keep_plain_files, remove_tree


def test_only_files_folders_and_links_within_stay(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "deep").mkdir(parents=True)
    (tmp_path / "secret").write_text("of another")
    (folder / "file").write_text("own")
    (folder / "same").symlink_to("file")
    (folder / "deep" / "up").symlink_to("../same")
    (folder / "deep" / "out").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    (folder / "further").symlink_to("deep/out")
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "deep" / "pipe")

    keep_plain_files(folder)

    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.exists()) == [
        "deep",
        "deep/up",
        "file",
        "same",
    ]
    assert (tmp_path / "secret").read_text() == "of another"


@pytest.mark.parametrize("path", ["{tmp}/other/file", "{tmp}/work/../other/file", "{tmp}/work/link/file", "file"])
def test_a_file_elsewhere_is_not_of_the_folder(tmp_path: Path, path: str) -> None:
    for name in ("work", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "other")
    with pytest.raises(StageFailed, match="outside of the work folder"):
        file_within(tmp_path / "work", path.format(tmp=tmp_path))
    own = tmp_path / "work" / "file"
    assert file_within(tmp_path / "work", str(own)) == own


@pytest.fixture
def few_calls() -> Iterator[None]:
    """A limit that a folder reaches sooner."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("few_calls")
def test_a_folder_is_removed_however_deep_it_is_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "file").touch()
    folder = tmp_path / "work"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("deeper", dir_fd=here)
        deeper = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.symlink(tmp_path / "beside", "link", dir_fd=here)
    os.mkfifo("pipe", dir_fd=here)
    os.fchmod(here, 0)
    os.close(here)

    remove_tree(folder)

    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == ["beside", "beside/file"]
    remove_tree(folder)
