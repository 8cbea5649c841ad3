"""A child that begins as a copy is given what the command is given that the product starts."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.kit.process.spawn import python_module
from app.kit.process.spawn import spawn as start
from tests.harness import copied_children
from tests.harness.paths import REPOSITORY

FACTS = "tests.harness.process_facts"
ENVIRONMENT = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(REPOSITORY), "TOLD": "only this"}


@pytest.fixture(autouse=True)
def _copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_children, "COPIED", (FACTS, "http.server"))


def facts(starter: Callable[..., Any], command: list[str], folder: Path) -> tuple[dict[str, Any], int, str]:
    """What the program says of itself, its exit code, and its log."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    reads, writes = os.pipe()
    process = starter([*command, str(writes), "3"], env=ENVIRONMENT, log=log, folder=folder, pass_fds=[writes])
    os.close(writes)
    with os.fdopen(reads) as told:
        text = told.read()
    code = process.wait()
    return json.loads(text), code, log.read_text()


@pytest.mark.parametrize("flags", [[], ["-P"]], ids=["path with its folder", "safe path"])
def test_it_is_given_what_the_command_is_given(flags: list[str], tmp_path: Path) -> None:
    command = [python_module(FACTS)[0], *flags, "-m", FACTS]
    copied = facts(copied_children.spawn, command, tmp_path)
    assert copied == facts(start, command, tmp_path)
    assert copied[1:] == (3, "to the log\n")


def test_it_ends_as_a_command_ends_and_needs_no_parent(tmp_path: Path) -> None:
    process = copied_children.spawn(
        python_module("http.server", "0"), env=ENVIRONMENT, log=tmp_path / "log", folder=tmp_path
    )
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with pytest.raises(FileNotFoundError):
        copied_children.spawn(python_module(FACTS), env=ENVIRONMENT, folder=tmp_path / "none")
