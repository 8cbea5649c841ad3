"""What the sandbox child runs in the fault tests instead of a toolchain.

The job's model file is a plan in JSON: {"notes": folder, "onnx" | "bie" | "nef": what that stage does}. Each stage
hands the plan on as its output, so all of a stage is real but the work itself. A stage without a word ends at once.
With a `census`, a folder, each BIE stage counts there how many of its kind are alive when it begins.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

from app.conversion.model import Stage
from app.conversion.toolchains.base import OUTPUTS, Progress

INPUTS = {"ONNX": "model.onnx", "BIE": "out.onnx", "NEF": "out.bie"}
NOTES = "notes"
"""The one folder of a deployment that its stages write in, beside their work folders."""
STUBBORN = """
import os, pathlib, signal, sys, time
os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "a").write("child\\n")
while True:
    pathlib.Path(f"litter-{time.monotonic_ns()}").touch()
    time.sleep(0.001)
"""


def run_stage(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    plan = json.loads(Path(INPUTS[request["stage"]]).read_text())
    notes, step = Path(plan["notes"]), request["stage"].lower()
    _note(notes / "starts", step)
    if step == "bie" and "census" in plan:
        _count(Path(plan["census"]))
    word, _, argument = plan.get(step, "").partition(":")
    if word == "hang":
        _hang(notes)
    elif word == "wait":
        _wait(notes / argument)
    elif word == "sleep":
        time.sleep(float(argument))
    elif word == "crash":
        os.kill(os.getpid(), signal.Signals[argument])
    output = Path(OUTPUTS[Stage(request["stage"])])
    output.write_text(json.dumps(plan))
    return {"output": str(output.absolute()), "report": {}, "summary": {}, "versions": {}, "extra_files": {}}


def _hang(notes: Path) -> None:
    """Obeys no SIGTERM, and has a child in a session of its own that neither does and that keeps writing files."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for number in range(300):
        Path(f"rubbish-{number}").touch()
    start_stubborn(notes)
    _note(notes / "toolchain", "stage")
    time.sleep(600)


def start_stubborn(notes: Path) -> None:
    """It tells of itself, and shares with this process a lock that is free again when both are gone, wherever they
    are seen from."""
    alive = os.open(notes / "alive", os.O_RDWR | os.O_CREAT)
    fcntl.flock(alive, fcntl.LOCK_SH)
    subprocess.Popen([sys.executable, "-c", STUBBORN, str(notes / "toolchain")], pass_fds=[alive])


def _wait(gate: Path) -> None:
    while not gate.exists():
        time.sleep(0.02)


def _note(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")


def _count(folder: Path) -> None:
    """Each process holds a lock for as long as it lives, however it ends: who can be locked out is dead."""
    with (folder / "mutex").open("w") as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)
        own = os.open(folder / f"{uuid4()}.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(own, fcntl.LOCK_EX)
        _note(folder / "counts", str(sum(is_locked(path) for path in folder.glob("*.lock"))))


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
