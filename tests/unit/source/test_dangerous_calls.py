"""No command of ours goes through a shell, so that what a user names can never become one; and nothing that comes over
the network can become code: there is nothing in the sources that would make code of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY

SHELLS = {
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
    "pty.spawn",
    "commands.getoutput",
}
FIRST_WORDS = {"sh", "bash", "/bin/sh", "/bin/bash", "cmd"}
MAKERS = {"eval", "exec", "compile", "__import__"}
MAKING_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
FROM_NETWORK = ("edge", "inference", "nodes", "video")
"""Packages of app that may hold nothing that makes code of data."""
CONFINED = "app/inference/enclosed_program.py"
"""Runs the decoder in a model's file, in a process that confines itself first: nothing imports it."""
Place = tuple[int, str]
"""Line and what is there."""


def sources() -> list[Path]:
    paths = [path for folder in ("app", "actors", "ops") for path in (REPOSITORY / folder).rglob("*.py")]
    scripts = [path for path in (REPOSITORY / "ops").iterdir() if path.is_file() and not path.suffix]
    return paths + [path for path in scripts if path.read_text("utf-8", "replace").startswith("#!/usr/bin/env python")]


# --- what is looked for ---------------------------------------------------------------------------
def shells(nodes: list[ast.AST]) -> Iterator[Place]:
    """Everything that starts a shell."""
    names = dict(_imported(nodes))
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        head, _, rest = _dotted(node.func).partition(".")
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


def _imported(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    """Name here, and what it stands for."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _dotted(called: ast.expr) -> str:
    """a.b.c as it is written; empty for what is no such name."""
    rest = ""
    while isinstance(called, ast.Attribute):
        rest, called = f".{called.attr}{rest}", called.value
    return f"{called.id}{rest}" if isinstance(called, ast.Name) else ""


def makers_of_code(nodes: list[ast.AST]) -> Iterator[Place]:
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in MAKERS:
            yield node.lineno, node.id
        elif isinstance(node, ast.Import):
            imported = {alias.name.partition(".")[0] for alias in node.names}
            yield from ((node.lineno, name) for name in MAKING_MODULES & imported)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, name) for name in MAKING_MODULES & {(node.module or "").partition(".")[0]})


def parsed(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


# --- where it is looked for -----------------------------------------------------------------------
def any_word(words: Iterable[str]) -> str:
    return rf"\b(?:{'|'.join(re.escape(word) for word in words)})\b"


# A source without any of these words has nothing of what is looked for. It needs not be parsed, which for all takes
# seconds. By a backslash a literal may spell any word.
SHELL_WORDS = re.compile(
    "|".join([r"\\[xuUN]", "shell", any_word(name.split(".")[1] for name in SHELLS), any_word(["sh", "bash", "cmd"])])
)
CODE_WORDS = re.compile(any_word(MAKERS | MAKING_MODULES))


def texts() -> dict[Path, str]:
    return {path: path.read_text("utf-8") for path in sources()}


@pytest.mark.slow
def test_nothing_of_the_product_starts_a_shell() -> None:
    checked = texts()
    assert len(checked) > 100
    suspects = {path: text for path, text in checked.items() if SHELL_WORDS.search(text)}
    calls = {str(path): list(shells(parsed(text))) for path, text in suspects.items()}
    assert suspects and not {path: places for path, places in calls.items() if places}


@pytest.mark.slow
def test_no_source_makes_code_of_data() -> None:
    folders = [REPOSITORY / "app" / package for package in FROM_NETWORK]
    checked = {path: text for path, text in texts().items() if any(map(path.is_relative_to, folders))}
    assert all(any(path.is_relative_to(folder) for path in checked) for folder in folders)
    suspects = {path: text for path, text in checked.items() if CODE_WORDS.search(text)}
    calls = {str(path): list(makers_of_code(parsed(text))) for path, text in suspects.items()}
    makers = {path for path, places in calls.items() if places}
    assert suspects and makers == {str(REPOSITORY / CONFINED)}


def test_the_process_that_makes_code_is_imported_by_nobody_and_confined_before_it_reads() -> None:
    name = CONFINED.removesuffix(".py").replace("/", ".")
    assert not [path for path, text in texts().items() if f"import {name}" in text or f"from {name}" in text]
    text = (REPOSITORY / CONFINED).read_text()
    assert text.index("_confine()") < text.index("receive(end)") < text.index("_load(")


# --- that the search finds it ---------------------------------------------------------------------
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
    assert SHELL_WORDS.search(text)
    assert len(list(shells(parsed(text)))) == 1


@pytest.mark.parametrize("source", ["eval(body)", "import pickle", "from marshal import loads", "f = __import__"])
def test_what_would_make_code_is_found(source: str) -> None:
    assert CODE_WORDS.search(source)
    assert list(makers_of_code(parsed(source)))
