"""The command line, typed in this process, or in a copy of one that has imported it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from app.cli import main
from tests.harness.forked import Forked

PATIENCE_S = 120


def typed(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The exit code of `modelmill arguments`."""
    monkeypatch.setattr(sys, "argv", ["modelmill", *map(str, arguments)])
    monkeypatch.delenv("MODELMILL_URL", raising=False)
    try:
        return main.main()
    except SystemExit as ended:
        return int(ended.code or 0)


def run(*arguments: object, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """What `modelmill arguments` ends with, its output in a file, from where the repository lies: to start the command
    itself takes a second of the processor, and its first lines are tried by the tests of `modelmill up`."""
    with TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        process = Forked(
            "app.cli.main:main", [*map(str, arguments)], environment=environment, log=output, errors=errors
        )
        code = process.wait(PATIENCE_S)
        return subprocess.CompletedProcess(process.args, code, output.read_text(), errors.read_text())
