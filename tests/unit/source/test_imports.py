"""Names are imported from where they are made or from a package that offers them; a package offers what is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.import_graph import import_graph, module_name
from tests.harness.paths import REPOSITORY
from tests.harness.source_trees import nodes, source_trees

pytestmark = pytest.mark.slow
KNOWN_TO_ALL = {"app.kit", "app.toolchain_names"}
"""By part of the product: what the kit, and the settings, may import besides themselves."""


def trees_by_module() -> dict[str, tuple[Path, ast.Module]]:
    return {module_name(path): (path, tree) for path, tree in source_trees("app", "actors").items()}


def own_names(tree: ast.Module) -> set[str]:
    """What a module makes, and what its `__all__` says besides."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            names.update(ast.literal_eval(node.value))
    names.update(node.name for node in nodes(tree, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    names.update(node.id for node in nodes(tree, ast.Name) if isinstance(node.ctx, ast.Store))
    return names


def imported_names(tree: ast.Module) -> Iterator[tuple[str, ast.alias, int]]:
    for node in nodes(tree, ast.ImportFrom):
        if node.module and not node.level:
            yield from ((node.module, alias, node.lineno) for alias in node.names)


def test_a_name_comes_from_where_it_is_made_or_from_a_package_that_offers_it() -> None:
    modules = trees_by_module()
    own = {name: own_names(tree) for name, (path, tree) in modules.items() if path.name != "__init__.py"}
    imports = [
        (f"{path}:{line}", source, alias.name)
        for path, tree in modules.values()
        for source, alias, line in imported_names(tree)
        if source in own
    ]
    assert len(imports) > 5000
    assert [(place, source, name) for place, source, name in imports if name not in own[source]] == []


def used_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Modules, and names of theirs: imported from them, or asked of them."""
    imports = list(imported_names(tree))
    modules = {alias.asname or alias.name: f"{source}.{alias.name}" for source, alias, _ in imports}
    yield from ((source, alias.name) for source, alias, _ in imports)
    for node in nodes(tree, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr


def test_what_a_package_offers_is_used() -> None:
    used = {name for tree in source_trees("app", "actors", "ops", "tests").values() for name in used_names(tree)}
    unused = [
        f"{path}:{line} {name}"
        for package, (path, tree) in trees_by_module().items()
        if path.name == "__init__.py"
        for source, alias, line in imported_names(tree)
        if (name := alias.asname or alias.name) != "annotations"
        and not name.startswith("_")  # a module that adds something when it is imported
        and (package, name) not in used
        and len(re.findall(rf"\b{name}\b", (REPOSITORY / path).read_text("utf-8"))) < 2
    ]
    assert not unused, "\n".join(unused)


def test_the_kit_and_the_settings_know_no_capability() -> None:
    graph = import_graph({name: tree for name, (_, tree) in trees_by_module().items()})
    for part in ("app.kit", "app.settings"):
        known = {one for name, others in graph.items() if name.startswith(part) for one in others}
        assert [one for one in sorted(known) if ".".join(one.split(".")[:2]) not in KNOWN_TO_ALL | {part}] == []
