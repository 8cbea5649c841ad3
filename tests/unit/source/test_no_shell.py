"""No command of ours goes through a shell: what a user names can then never become one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY

SHELLS = {
    "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "asyncio.create_subprocess_shell",
    "pty.spawn", "commands.getoutput",
}  # fmt: skip
FIRST_WORDS = {"sh", "bash", "/bin/sh", "/bin/bash", "cmd"}


def sources() -> list[Path]:
    found = [path for folder in ("app", "actors", "ops") for path in (REPOSITORY / folder).rglob("*.py")]
    scripts = [path for path in (REPOSITORY / "ops").iterdir() if path.is_file() and not path.suffix]
    return found + [path for path in scripts if path.read_text("utf-8", "replace").startswith("#!/usr/bin/env python")]


def shells(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and kind of everything that starts a shell."""
    names = _imported(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        head, _, rest = called.partition(".")
        called = names.get(head, head) + (f".{rest}" if rest else "")
        if called in SHELLS:
            yield node.lineno, called
        for keyword in node.keywords:
            if keyword.arg == "shell" and not (
                isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            ):
                yield node.lineno, "shell="
        first = node.args[0] if node.args else None
        word = first.elts[0] if isinstance(first, ast.List) and first.elts else None
        if isinstance(word, ast.Constant) and word.value in FIRST_WORDS:
            yield node.lineno, str(word.value)


def _imported(tree: ast.AST) -> dict[str, str]:
    """Name here → what it stands for."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_nothing_of_the_product_starts_a_shell() -> None:
    checked = sources()
    assert len(checked) > 100
    found = {str(path): list(shells(ast.parse(path.read_text("utf-8")))) for path in checked}
    assert not {path: places for path, places in found.items() if places}


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.system('x')",
        "from os import popen as p\np('x')",
        "import subprocess as s\ns.run('x', shell=True)",
        "import subprocess\nsubprocess.Popen(['bash', '-c', name])",
        "from subprocess import getoutput\ngetoutput('x')",
    ],
)
def test_the_search_finds_a_shell(text: str) -> None:
    assert len(list(shells(ast.parse(text)))) == 1
