"""The client that waits is made from the one to be awaited, and both run where the product does not: on Python 3.9."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import modelmill_client

from tests.harness.paths import REPOSITORY

ROOT = REPOSITORY / "ops" / "packages" / "modelmill-client"
PACKAGE = ROOT / "modelmill_client"


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_was_generated_is_what_would_be(tmp_path: Path) -> None:
    generator().generate(tmp_path)
    made = {path.name: path.read_text() for path in tmp_path.glob("*.py")}
    assert made == {path.name: path.read_text() for path in (PACKAGE / "_sync").glob("*.py")}


def test_nothing_of_the_server_is_imported_and_nothing_newer_than_3_9() -> None:
    files = list(PACKAGE.rglob("*.py"))
    assert len(files) > 10
    for path in files:
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        modules = {name for node in ast.walk(tree) for name in imported(node)}
        assert not modules & {"app", "actors", "pydantic", "starlette"}, path


def imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    return {(node.module or "").split(".")[0]} if isinstance(node, ast.ImportFrom) else set()


def test_all_that_is_named_is_there() -> None:
    assert all(hasattr(modelmill_client, name) for name in modelmill_client.__all__)
