"""The syntax trees of the repository's sources, which several tests look through and one process parses once."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from tests.harness.paths import REPOSITORY

Kind = TypeVar("Kind", bound=ast.AST)


def source_trees(*folders: str) -> Mapping[Path, ast.Module]:
    """Of all Python files below some folders of the repository, by their paths in it."""
    return {path: tree for folder in folders for path, tree in _trees(folder).items()}


@functools.cache
def _trees(folder: str) -> Mapping[Path, ast.Module]:
    return {
        path.relative_to(REPOSITORY): ast.parse(path.read_text("utf-8")) for path in (REPOSITORY / folder).rglob("*.py")
    }


def nodes(tree: ast.Module, *kinds: type[Kind]) -> Iterator[Kind]:
    """The nodes of these kinds, kind after kind. Each tree is walked once."""
    of_tree = _nodes(tree)
    return (node for kind in kinds for node in of_tree.get(kind, ()) if isinstance(node, kind))


@functools.cache
def _nodes(tree: ast.Module) -> Mapping[type[ast.AST], list[ast.AST]]:
    by_kind: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    for node in ast.walk(tree):
        by_kind[type(node)].append(node)
    return by_kind


def forget_trees() -> None:
    _trees.cache_clear()
    _nodes.cache_clear()
