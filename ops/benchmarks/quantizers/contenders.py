"""Who quantizes: our toolchain in its modes and other tools, each in a process and, where it must, an environment of
its own. All get the same float model and the same pictures, prepared alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.conversion.options import HostQuantization
from ops.benchmarks.peers.environments import programs_of
from ops.benchmarks.peers.systems import OWN
from tests.harness.paths import REPOSITORY

HERE = Path(__file__).parent
THREADS = 2
CONVERSION_S = 1800
LAST_LINES = 3
METHODS = ("MinMax", "Percentile", "Entropy")
"""Of onnxruntime's calibration."""


@dataclass(frozen=True)
class Contender:
    name: str
    command: tuple[str, ...]
    """Behind the interpreter; the request file is put behind it."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """What its request holds beyond the model, the pictures and the output."""
    environment: str = OWN


@dataclass(frozen=True)
class Conversion:
    """One run of a contender."""

    model: Path
    took_s: float
    peak_bytes: int
    """Resident, of its process."""
    report: Mapping[str, Any]
    """bie.json, for ours."""


def contenders() -> tuple[Contender, ...]:
    """The modes that this version has, then the others."""
    modes: dict[str, dict[str, Any]] = {"ours, min-max": {"method": "minmax"}}
    if "goal" in HostQuantization.model_fields:
        modes |= {"ours, snr>=20": {"goal": "snr>=20"}, "ours, smallest": {"goal": "smallest"}}
    own = ("-m", "ops.benchmarks.quantizers.ours")
    static = (str(HERE / "onnxruntime_static.py"),)
    return (
        *(Contender(name, own, {"options": {"quantization": values}}) for name, values in modes.items()),
        *(
            Contender(f"onnxruntime, {method}", static, {"method": method})
            for method in ("MinMax", "Percentile", "Entropy")
        ),
        Contender("NNCF", (str(HERE / "nncf_default.py"),), environment="nncf"),
    )


def convert(contender: Contender, inputs: Mapping[str, Any], preprocess: Mapping[str, Any], folder: Path) -> Conversion:
    """Run it once.

    Args:
        inputs: {"float", "pictures", "arrays"}: paths.
        preprocess: How the pictures are prepared; the arrays are so already.

    Raises:
        RuntimeError: It failed, took too long, or its environment cannot be had; with its last words.
    """
    stem = contender.name.replace(", ", "-").replace(" ", "-").replace(">", "").replace("=", "")
    output, request, report = (folder / f"{stem}{ending}" for ending in (".onnx", ".json", ".report.json"))
    options = {"preprocess": preprocess, **contender.request.get("options", {})}
    question = {**inputs, **contender.request, "options": options, "threads": THREADS}
    request.write_text(json.dumps({**question, "output": str(output), "report": str(report)}), encoding="utf-8")
    interpreter = str(programs_of(contender.environment) / Path(sys.executable).name)
    started = time.monotonic()
    peak = _run([interpreter, *contender.command, str(request)], folder / f"{stem}.log")
    facts = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else {}
    return Conversion(output, time.monotonic() - started, peak, facts)


def _run(command: list[str], log: Path) -> int:
    """Peak resident bytes of the process. Raises RuntimeError."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": str(THREADS)}
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=REPOSITORY)
        deadline = time.monotonic() + CONVERSION_S
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                process.kill()
                raise RuntimeError(f"it took more than {CONVERSION_S} s")
            time.sleep(0.05)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it said nothing"]
        raise RuntimeError(" | ".join(line.strip() for line in lines[-LAST_LINES:])[:300])
    return int(usage.ru_maxrss) * 1024
