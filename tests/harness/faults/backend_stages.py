"""What the sandbox child runs where toolchain, store or disk are to fail: the stages of `stages`, and more words.

After a stage has done what `stages` knows, its word here is obeyed; a stage without such a word ends well.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.conversion.model import Stage
from app.conversion.toolchains.base import OUTPUTS, Progress
from tests.harness.faults import stages

PIECE = 1 << 20
BROOD = 3


def run_stage(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    plan = json.loads(Path(stages.INPUTS[request["stage"]]).read_text())
    word, _, argument = plan.get(request["stage"].lower(), "").partition(":")
    result = stages.run_stage(request, progress)
    if word in WORDS:
        WORDS[word](Path(plan["notes"]), Path(OUTPUTS[Stage(request["stage"])]), argument)
    return result


def _segfault(notes: Path, output: Path, argument: str) -> None:
    ctypes.string_at(0)


def _eat(notes: Path, output: Path, argument: str) -> None:
    eaten = []
    while True:
        eaten.append(bytearray(8 << 20))


def _brood(notes: Path, output: Path, argument: str) -> None:
    """Leaves children that obey no SIGTERM, each in a session of its own and still writing files, and ends well."""
    for _ in range(BROOD):
        stages.start_stubborn(notes)
    while len(_lines(notes / "toolchain")) < BROOD:
        time.sleep(0.02)


def _talk(notes: Path, output: Path, argument: str) -> None:
    """So many bytes of log, as fast as they are taken; then it waits for the gate."""
    piece = (b"x" * 99 + b"\n") * (PIECE // 100)
    left = int(argument)
    while left:
        left -= os.write(1, piece[:left])
    (notes / "talked").touch()
    while not (notes / "gate").exists():
        time.sleep(0.02)


def _grow(notes: Path, output: Path, argument: str) -> None:
    """Makes the output so large; then it waits for the gate."""
    with output.open("ab") as file:
        file.write(b" " * (int(argument) - output.stat().st_size))
    (notes / "grown").touch()
    while not (notes / "gate").exists():
        time.sleep(0.02)


def _fill(notes: Path, output: Path, argument: str) -> None:
    with output.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(PIECE))


def _fill_quietly(notes: Path, output: Path, argument: str) -> None:
    """As a vendor's tool does that tells nobody why it gave up."""
    try:
        _fill(notes, output, argument)
    except OSError:
        os._exit(1)


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


WORDS: dict[str, Callable[[Path, Path, str], None]] = {
    "segfault": _segfault,
    "eat": _eat,
    "brood": _brood,
    "talk": _talk,
    "grow": _grow,
    "fill": _fill,
    "fill-quietly": _fill_quietly,
}
