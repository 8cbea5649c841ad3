"""Folders to keep out of, cut from what a confined process may reach."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.kit.sandbox.paths import SandboxPaths, of_python


def folders(root: Path, *names: str) -> list[str]:
    for name in names:
        (root / name).mkdir(parents=True)
    return [str(root / name) for name in names]


def test_of_a_folder_with_data_in_it_all_that_lies_beside_is_read(tmp_path: Path) -> None:
    library, data, tools, jobs = folders(tmp_path, "opt/lib", "opt/mill/data", "opt/mill/tools", "opt/mill/work/jobs")
    kept = SandboxPaths(reads=(str(tmp_path / "opt"), library)).beside([data, jobs])
    assert set(kept.reads) == {library, tools}


def test_what_is_to_be_kept_out_is_not_read_itself_but_what_is_named_in_it_is(tmp_path: Path) -> None:
    data, python = folders(tmp_path, "data", "data/venv")
    assert SandboxPaths(reads=(data, python)).beside([data]).reads == (python,)


def test_a_link_to_it_is_followed(tmp_path: Path) -> None:
    (data,) = folders(tmp_path, "data")
    (tmp_path / "link").symlink_to(data)
    assert (
        SandboxPaths(reads=(str(tmp_path / "link"),), writes=(str(tmp_path / "link"),)).beside([data]) == SandboxPaths()
    )


def test_nothing_is_written_that_has_it_inside(tmp_path: Path) -> None:
    data, other = folders(tmp_path, "tmp/data", "other")
    assert SandboxPaths(writes=(str(tmp_path / "tmp"), other)).beside([data]).writes == (other,)


def test_of_a_folder_on_the_path_only_what_can_be_imported_is_read(tmp_path: Path, monkeypatch) -> None:
    package, data = folders(tmp_path, "package", "data")
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "module.py").touch()
    (tmp_path / "notes.txt").touch()
    before = of_python()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert set(of_python().reads) - set(before.reads) == {package, str(tmp_path / "module.py")}
    assert data not in of_python().reads


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Where everybody may look, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # the tests' own folder may be closed to other users
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_what_this_user_may_not_look_into_is_left_out(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout where somebody else has served from, say."""
    (open_folder / "module.py").touch()
    (open_folder / "locked").mkdir(mode=0o700 if os.geteuid() == 0 else 0)
    monkeypatch.setattr(sys, "path", [str(open_folder), str(open_folder / "locked" / "below"), *sys.path])
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        reads = of_python().reads
    finally:
        os.seteuid(user)
        (open_folder / "locked").chmod(0o700)  # so that it can be removed
    assert str(open_folder / "module.py") in reads
    assert str(open_folder / "locked") not in reads
