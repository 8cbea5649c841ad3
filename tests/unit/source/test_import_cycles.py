"""No module and no part of the product imports itself by way of others: neither lazily nor for types alone."""

from __future__ import annotations

import ast

import pytest

from tests.harness.import_graph import cycles, import_graph, module_name, parts_graph
from tests.harness.source_trees import source_trees

PACKAGES = ("app", "actors")


def module_trees() -> dict[str, ast.Module]:
    return {module_name(path): tree for path, tree in source_trees(*PACKAGES).items()}


@pytest.mark.slow
def test_nothing_imports_itself_by_way_of_others() -> None:
    graph = import_graph(module_trees())
    assert len(graph) > 500
    assert cycles(graph) == []
    assert cycles(parts_graph(graph)) == []


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


def test_the_search_finds_a_circle_of_parts_whose_modules_have_none() -> None:
    graph = {
        "app.a.x": {"app.b.y"},
        "app.b.y": set[str](),
        "app.b.z": {"app.c"},
        "app.c": {"app.a.w"},
        "app.a.w": set(),
    }
    assert cycles(graph) == []
    assert cycles(parts_graph(graph)) == [["app.a", "app.b", "app.c"]]
