"""The syntax trees of the repository's sources, which several tests look through and one process parses once."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Mapping
from pathlib import Path

from tests.harness.paths import REPOSITORY


def source_trees(*folders: str) -> Mapping[Path, ast.Module]:
    """Of all Python files below some folders of the repository, by their paths in it."""
    return {path: tree for folder in folders for path, tree in _trees(folder).items()}


@functools.cache
def _trees(folder: str) -> Mapping[Path, ast.Module]:
    """The garbage collector stays out of it: it would look through all trees again and again, for most of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return {
            path.relative_to(REPOSITORY): ast.parse(path.read_text("utf-8"))
            for path in (REPOSITORY / folder).rglob("*.py")
        }
    finally:
        if was_enabled:
            gc.enable()


def forget_trees() -> None:
    _trees.cache_clear()
