"""The ways through the code that docs/architecture.md tells go by modules that there are, and by each of them once; and
its tree has the folders that there are."""

from __future__ import annotations

import re

import pytest

from tests.harness.paths import REPOSITORY

TEXT = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")
SECTION = TEXT.partition("## Four ways through the code")[2].partition("Import rules are")[0]
WAYS = {title: text for title, text in re.findall(r"\*\*(.+?)\*\*: (.*?)(?=\n\n)", SECTION, re.DOTALL)}


@pytest.mark.parametrize("way", ["A conversion job", "A training task", "A joint service", "A video plan"])
def test_a_way_goes_by_modules_that_there_are_and_by_each_of_them_once(way: str) -> None:
    modules = re.findall(r"`([a-z_/]+\.py)`", WAYS[way])
    assert len(modules) >= 10
    assert [name for name in modules if not any((REPOSITORY / root / name).is_file() for root in ("app", "."))] == []
    assert len(modules) == len(set(modules))


def folders(path: str) -> set[str]:
    return {folder.name for folder in (REPOSITORY / path).iterdir() if folder.is_dir() and folder.name != "__pycache__"}


def test_the_tree_has_each_folder_of_the_product_and_of_the_kit() -> None:
    tree = TEXT.partition("## The tree")[2].partition("## ")[0]
    (kit,) = re.findall(r"^\| `app/kit` \|.*$", tree, re.MULTILINE)
    assert {name for name in folders("app") if f"`app/{name}`" not in tree} == set()
    assert folders("app/kit") == set(re.findall(r"`(\w+)`", kit))
