"""Nothing that comes over the network can become code: there is nothing in the sources that would make code of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.harness.paths import REPOSITORY

APP = REPOSITORY / "app"
CALLS = {"eval", "exec", "compile", "__import__"}
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}


def makers_of_code(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id in CALLS:
            yield node.id
        elif isinstance(node, ast.Import):
            yield from MODULES & {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            yield from MODULES & {(node.module or "").partition(".")[0]}


@pytest.mark.parametrize("source", ["eval(body)", "import pickle", "from marshal import loads", "f = __import__"])
def test_what_would_make_code_is_found(source: str) -> None:
    assert list(makers_of_code(source))


@pytest.mark.parametrize("package", ["video", "vision", "nodes"])
def test_no_source_makes_code_of_data(package: str) -> None:
    sources = list((APP / package).rglob("*.py"))
    assert sources
    assert not {str(path): found for path in sources if (found := list(makers_of_code(path.read_text())))}
