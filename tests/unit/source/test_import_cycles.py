"""No module of the product imports itself by way of others: neither lazily nor for its types alone."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from tests.harness.source_trees import source_trees

PACKAGES = ("app", "actors")
Graph = Mapping[str, set[str]]
"""A module, and those that it imports."""


def import_graph(trees: Mapping[str, ast.Module]) -> Graph:
    """All imports count, wherever they stand.

    Args:
        trees: a module's name, and its syntax tree.
    """
    return {name: set(imports(tree, trees.keys())) - {name} for name, tree in trees.items()}


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


def module_trees() -> dict[str, ast.Module]:
    return {module_name(path): tree for path, tree in source_trees(*PACKAGES).items()}


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = import_graph(module_trees())
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
    texts = {"a": "from b import c", "b": "", "b.c": "import d", "d": back, "e": "import a"}
    graph = import_graph({name: ast.parse(text) for name, text in texts.items()})
    assert cycles(graph) == [["a", "b.c", "d"]]
