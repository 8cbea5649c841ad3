"""The rules of modules that a test can hold: each says what it is for, and none is too long to read at once."""

from __future__ import annotations

import ast

import pytest

from tests.harness.paths import REPOSITORY
from tests.harness.source_trees import source_trees

pytestmark = pytest.mark.slow
MOST_LINES = 400


def test_every_module_says_what_it_is_for() -> None:
    trees = source_trees("app", "actors", "ops", "tests/harness")
    generated = "/_sync/"
    assert [
        str(path)
        for path, tree in trees.items()
        if tree.body and generated not in str(path) and not ast.get_docstring(tree)
    ] == []


def test_no_module_of_the_product_is_too_long() -> None:
    assert [
        str(path)
        for path in source_trees("app", "actors")
        if len((REPOSITORY / path).read_text().splitlines()) > MOST_LINES
    ] == []
