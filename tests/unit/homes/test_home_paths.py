"""Which file a text means, and in which order a folder is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.homes.errors import PathRefused
from app.homes.files import HomeFiles
from app.homes.home_paths import HomePath, home_path_of, own_path_of
from app.homes.model import HomesOptions
from app.homes.read_only_tree import ReadOnlyTree, Sort

OPTIONS = HomesOptions(Path("/srv"), logical_root="/private")


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("", HomePath("")),
        ("datasets/a", HomePath("datasets/a")),
        ("/private/users/alice", HomePath("")),
        ("/private/users/alice/", HomePath("")),
        ("/private/users/alice/datasets/a", HomePath("datasets/a")),
        ("/private/common", HomePath("", is_common=True)),
        ("/private/common/hf/x", HomePath("hf/x", is_common=True)),
    ],
)
def test_a_whole_path_and_its_short_form_mean_the_same(text: str, location: HomePath) -> None:
    assert home_path_of(OPTIONS, "alice", text) == location
    if text.startswith("/"):
        assert location.logical(OPTIONS, "alice") == text.rstrip("/")


@pytest.mark.parametrize(
    "text",
    [
        "/",
        "/etc",
        "/private",
        "/private/users",
        "/private/users/bob/x",
        "/private/users/alice2",
        "/private/commons/x",
        "/private/users/alice//x",
        "/PRIVATE/users/alice/x",
        "//private/users/alice/x",
    ],
)
def test_a_whole_path_anywhere_else_is_refused_and_names_its_field(text: str) -> None:
    with pytest.raises(PathRefused) as refused:
        home_path_of(OPTIONS, "alice", text, field="source")
    assert refused.value.detail["problems"][0]["at"] == "source"


def test_the_common_folder_is_no_place_to_change_anything() -> None:
    with pytest.raises(PathRefused, match="can only be read"):
        own_path_of(OPTIONS, "alice", "/private/common/datasets/x")
    assert own_path_of(OPTIONS, "alice", "models/x") == HomePath("models/x")


@pytest.fixture
def tree(tmp_path: Path) -> ReadOnlyTree:
    files = HomeFiles(HomesOptions(tmp_path))
    files.create("alice")
    return files.home("alice")


ORDERS = {
    Sort.NAME: ["Sub", "zoo", "a", "B", "c"],
    Sort.NAME_BACK: ["zoo", "Sub", "c", "B", "a"],
    Sort.SIZE: ["Sub", "zoo", "c", "a", "B"],
    Sort.SIZE_BACK: ["zoo", "Sub", "B", "a", "c"],
}


@pytest.mark.parametrize("sort", ORDERS)
@pytest.mark.parametrize("limit", [1, 2, 10])
def test_a_folder_is_told_in_order_page_by_page_with_its_folders_first(
    tmp_path: Path, tree: ReadOnlyTree, sort: Sort, limit: int
) -> None:
    folder = tmp_path / "users/alice/datasets"
    for name in ("zoo", "Sub"):
        (folder / name).mkdir()
    for name, size_bytes in (("a", 5), ("B", 5), ("c", 1)):
        (folder / name).write_bytes(b"x" * size_bytes)
    seen, cursor = list[str](), None
    while True:
        page = tree.browse("datasets", sort=sort, cursor=cursor, limit=limit)
        seen += [entry.name for entry in page.entries]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ORDERS[sort]


def test_a_page_goes_on_after_a_file_that_was_removed_meanwhile(tmp_path: Path, tree: ReadOnlyTree) -> None:
    folder = tmp_path / "users/alice/datasets"
    for size_bytes in range(4):
        (folder / f"f{size_bytes}").write_bytes(b"x" * size_bytes)
    first = tree.browse("datasets", sort=Sort.SIZE_BACK, limit=2)
    (folder / "f2").unlink()
    rest = tree.browse("datasets", sort=Sort.SIZE_BACK, cursor=first.next_cursor)
    assert [entry.name for entry in rest.entries] == ["f1", "f0"]


@pytest.mark.parametrize("cursor", ["x", "f:", "f:a/b", "f=x:a", "q:a", "f:.."])
def test_a_cursor_of_ones_own_making_is_refused(tree: ReadOnlyTree, cursor: str) -> None:
    with pytest.raises(PathRefused):
        tree.browse("datasets", cursor=cursor)
