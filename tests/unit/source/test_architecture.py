"""The ways through the code that docs/architecture.md tells go by modules that there are, and by each of them once."""

from __future__ import annotations

import re

import pytest

from tests.harness.paths import REPOSITORY

SECTION = (
    (REPOSITORY / "docs" / "architecture.md")
    .read_text("utf-8")
    .partition("## Four ways through the code")[2]
    .partition("Import rules are")[0]
)
WAYS = {title: text for title, text in re.findall(r"\*\*(.+?)\*\*: (.*?)(?=\n\n)", SECTION, re.DOTALL)}


@pytest.mark.parametrize("way", ["A conversion job", "A training task", "A joint service", "A video plan"])
def test_a_way_goes_by_modules_that_there_are_and_by_each_of_them_once(way: str) -> None:
    modules = re.findall(r"`([a-z_/]+\.py)`", WAYS[way])
    assert len(modules) >= 10
    assert [name for name in modules if not any((REPOSITORY / root / name).is_file() for root in ("app", "."))] == []
    assert len(modules) == len(set(modules))
