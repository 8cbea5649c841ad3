"""What a child leaves in its folder leads nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.kit.sandbox.errors import StageFailed
from app.kit.sandbox.leftovers import file_within, keep_plain_files


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
