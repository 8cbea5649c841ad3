"""No module of the product imports itself by way of others: neither lazily nor for its types alone."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping

import pytest

from tests.harness.paths import REPOSITORY

PACKAGES = ("app", "actors")
Graph = Mapping[str, set[str]]
"""A module, and those that it imports."""


def import_graph(sources: Mapping[str, str]) -> Graph:
    """All imports count, wherever they stand.

    Args:
        sources: a module's name, and its text.
    """
    return {name: set(imports(ast.parse(text), sources.keys())) - {name} for name, text in sources.items()}


def imports(tree: ast.Module, modules: Collection[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                if member in modules or node.module in modules:
                    yield member if member in modules else node.module


def cycles(graph: Graph) -> list[list[str]]:
    """Modules that reach each other, in groups (Tarjan's strongly connected components, those of several modules)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for imported in graph[module]:
            if imported not in order:
                visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in stack:
                lowest[module] = min(lowest[module], order[imported])
        if lowest[module] == order[module]:
            at = stack.index(module)
            group, stack[at:] = stack[at:], []
            if len(group) > 1:
                circles.append(sorted(group))

    for module in graph:
        if module not in order:
            visit(module)
    return circles


def sources() -> dict[str, str]:
    texts = {}
    for package in PACKAGES:
        for path in (REPOSITORY / package).rglob("*.py"):
            parts = path.relative_to(REPOSITORY).with_suffix("").parts
            texts[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text("utf-8")
    return texts


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = import_graph(sources())
    assert len(graph) > 500
    assert cycles(graph) == []


@pytest.mark.parametrize(
    "back",
    [
        "from a import x",
        "def f():\n    import a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a import X",
    ],
    ids=["at load", "lazily", "for types"],
)
def test_the_search_finds_a_cycle(back: str) -> None:
    graph = import_graph({"a": "from b import c", "b": "", "b.c": "import d", "d": back, "e": "import a"})
    assert cycles(graph) == [["a", "b.c", "d"]]
