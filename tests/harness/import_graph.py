"""Which modules import which, wherever the import stands: at the top, in a function, or for types alone."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from tests.harness.source_trees import nodes

Graph = Mapping[str, set[str]]
"""A module, and those that it imports."""


def import_graph(trees: Mapping[str, ast.Module]) -> Graph:
    """All imports count, wherever they stand.

    Args:
        trees: a module's name, and its syntax tree.
    """
    return {name: set(imports(tree, trees.keys())) - {name} for name, tree in trees.items()}


def imports(tree: ast.Module, modules: Collection[str]) -> Iterator[str]:
    for imported in nodes(tree, ast.Import):
        yield from (alias.name for alias in imported.names if alias.name in modules)
    for node in nodes(tree, ast.ImportFrom):
        if node.module and not node.level:
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                if member in modules or node.module in modules:
                    yield member if member in modules else node.module


def cycles(graph: Graph) -> list[list[str]]:
    """Modules or parts that reach each other, in groups (Tarjan's strongly connected components, those of several)."""
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


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parts_graph(graph: Graph) -> dict[str, set[str]]:
    """The same between parts: `app.video` and `app.nodes` are parts."""
    parts: dict[str, set[str]] = {}
    for name, imported in graph.items():
        part = ".".join(name.split(".")[:2])
        parts.setdefault(part, set()).update({".".join(one.split(".")[:2]) for one in imported} - {part})
    return parts
