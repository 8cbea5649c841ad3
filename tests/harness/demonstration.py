"""`modelmill joint demo` and `modelmill video demo` as somebody types them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.harness.paths import REPOSITORY


@contextmanager
def demonstration(group: str, folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """Its process and what it says. Afterwards it has left nothing behind."""
    own = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": str(REPOSITORY)}
    own |= {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "app.cli.main", group, "demo", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own, cwd=REPOSITORY) as demo:
        assert demo.stdout is not None
        yield demo, demo.stdout
    assert list(folder.glob("modelmill-*")) == []


def until_it_says(words: str, output: IO[str]) -> str:
    """All that it has said."""
    lines = list[str]()
    for line in output:
        lines.append(line)
        if words in line:
            return "".join(lines)
    raise AssertionError("".join(lines))
