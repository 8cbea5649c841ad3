"""The syntax trees of the repository's sources, which several tests look through and one process parses once."""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Mapping
from pathlib import Path

from tests.harness.paths import REPOSITORY


@functools.cache
def source_trees(*folders: str) -> Mapping[Path, ast.Module]:
    """Of all Python files below some folders of the repository, by their paths in it.

    The garbage collector stays out of it: it would look through all trees again and again, for two thirds of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return {
            path.relative_to(REPOSITORY): ast.parse(path.read_text("utf-8"))
            for folder in folders
            for path in (REPOSITORY / folder).rglob("*.py")
        }
    finally:
        if was_enabled:
            gc.enable()
