"""What has one general piece is not written a second time: JSON from outside, codes of errors, and
waiting in tests."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.source_trees import nodes, source_trees

pytestmark = pytest.mark.slow
NESTED = {
    Path("app/kit/text/untrusted_json.py"),
    Path("app/edge/video/stage_host/child.py"),  # outputs of a stage are written
    Path("app/training/spec/changes.py"),  # a spec is written
    Path("app/kit/sandbox/leftovers.py"),  # folders are removed
}
"""Where texts or folders may turn out to be nested too deeply."""
UNTIL = Path("tests/harness/until.py")


def test_json_from_outside_is_read_by_the_kit() -> None:
    handlers = {
        path
        for path, tree in source_trees("app").items()
        for handler in nodes(tree, ast.ExceptHandler)
        if handler.type is not None and "RecursionError" in ast.unparse(handler.type)
    }
    assert handlers == NESTED, "read_json of kit/text/untrusted_json raises one kind of error"


def test_each_code_of_an_error_belongs_to_one_class() -> None:
    """An error that another process reports is rebuilt from its code."""
    declared = Counter(
        keyword.value.value
        for tree in source_trees("app").values()
        for kind in nodes(tree, ast.ClassDef)
        for keyword in kind.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    )
    assert len(declared) > 100
    assert [code for code, times in declared.items() if times > 1] == []


def test_tests_wait_for_a_condition_with_one_function() -> None:
    others = [
        f"{path}:{function.lineno}"
        for path, tree in source_trees("tests").items()
        for function in nodes(tree, ast.FunctionDef, ast.AsyncFunctionDef)
        if function in tree.body and function.name in ("until", "wait_until", "eventually") and path != UNTIL
    ]
    assert others == [], f"{UNTIL} has it"
