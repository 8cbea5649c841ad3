"""The command line, typed in this process, or in a copy of one that has imported it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Concatenate

import pytest

from app.cli import main
from tests.harness.forked import Forked
from tests.harness.until import PATIENCE_S


def typed(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit code of `modelmill arguments`."""
    monkeypatch.setattr(sys, "argv", ["modelmill", *map(str, arguments)])
    try:
        return main.main()
    except SystemExit as ended:
        return int(ended.code or 0)


def typed_in(group: str) -> Callable[Concatenate[pytest.MonkeyPatch, ...], int]:
    """`typed` for the commands of a group, such as `modelmill video`."""
    return lambda monkeypatch, *arguments: typed(monkeypatch, group, *arguments)


def run(*arguments: object, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """What `modelmill arguments` ends with, its output in a file, from where the repository lies: to start the command
    itself takes a second of the processor, and its first lines are tried by the tests of `modelmill up`."""
    with TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        process = begin(*arguments, environment=environment, log=output, errors=errors)
        code = process.wait(PATIENCE_S)
        return subprocess.CompletedProcess(process.args, code, output.read_text(), errors.read_text())


def begin(*arguments: object, environment: Mapping[str, str], log: Path, errors: Path | None = None) -> Forked:
    """`modelmill arguments` likewise, while it runs. errors: gets what it complains of, in place of the log."""
    return Forked("app.cli.main:main", [*map(str, arguments)], environment=environment, log=log, errors=errors)
