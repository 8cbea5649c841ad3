"""The packages of ops/packages run where the product does not: without it, on Python 3.9."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY

PACKAGES = sorted(path.parent for path in (REPOSITORY / "ops" / "packages").glob("*/*/py.typed"))


def test_there_are_packages() -> None:
    assert [path.name for path in PACKAGES] == ["modelmill_client", "modelmill_edge"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_nothing_of_the_server_is_imported_and_nothing_newer_than_3_9(package: Path) -> None:
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        modules = {name for node in ast.walk(tree) for name in imported(node)}
        assert not modules & {"app", "actors", "pydantic", "starlette"}, path


def imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    return {(node.module or "").split(".")[0]} if isinstance(node, ast.ImportFrom) else set()


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_all_that_is_named_is_there(package: Path) -> None:
    module = importlib.import_module(package.name)
    assert all(hasattr(module, name) for name in module.__all__)
