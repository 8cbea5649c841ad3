"""`modelmill joint demo`: the whole product with two nodes, from one command."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from app.kit.cli.command import Exit
from tests.harness.paths import REPOSITORY

pytestmark = pytest.mark.slow


@contextmanager
def demonstration(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Its process and what it says. Afterwards it has left nothing behind."""
    own = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": str(REPOSITORY)}
    own |= {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "app.cli.main", "joint", "demo", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own, cwd=REPOSITORY) as demo:
        assert demo.stdout is not None
        yield demo, demo.stdout
    assert list(folder.glob("modelmill-joint-*")) == []


def until_it_says(words: str, said: IO[str]) -> str:
    """All that it has said."""
    lines = list[str]()
    for line in said:
        lines.append(line)
        if words in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def test_it_shows_that_it_is_worth_it_and_goes_on_until_it_is_interrupted(tmp_path: Path) -> None:
    with demonstration(tmp_path) as (demo, said):
        shown = until_it_says("Ctrl-C ends everything", said)
        verdict = re.search(r"Joint inference keeps (\d+)% of what the cloud gains, and sends (\d+)% of the", shown)
        assert "edge only" in shown and verdict is not None, shown
        assert int(verdict[1]) >= 80 and int(verdict[2]) <= 50
        demo.send_signal(signal.SIGINT)
        assert "Everything is stopped." in said.read()
        assert demo.wait(60) == Exit.OK


@pytest.mark.exhaustive
def test_once_it_ends_by_itself_and_says_by_its_exit_code_whether_it_was_worth_it(tmp_path: Path) -> None:
    with demonstration(tmp_path, "--once") as (demo, said):
        shown = said.read()
        assert demo.wait(60) == Exit.OK, shown
        assert "edge only" in shown and "Everything is stopped." in shown


@pytest.mark.exhaustive
def test_it_can_be_interrupted_while_its_service_starts(tmp_path: Path) -> None:
    with demonstration(tmp_path) as (demo, said):
        until_it_says("Service default/digits", said)
        demo.send_signal(signal.SIGINT)
        assert "Everything is stopped." in said.read()
        assert demo.wait(60) == Exit.OK
