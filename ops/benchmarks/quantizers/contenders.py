"""The quantizers: our toolchain in its modes, and other tools, each in its own process and, if necessary, its own
environment. All get the same float model and the same prepared pictures."""

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
"""The methods of onnxruntime's calibration."""
QUARK_PRESETS = ("A8W8", "S8S8_AAWS", "INT8_CNN_DEFAULT", "INT8_CNN_ACCURATE")
"""Names of AMD Quark's presets for int8; the last one rounds weights by training them."""
AIMET_MODES: Mapping[str, Mapping[str, Any]] = {
    "min-max": {"scheme": "min_max", "equalized": False},
    "equalized": {"scheme": "tf_enhanced", "equalized": True},
}


@dataclass(frozen=True)
class Contender:
    name: str
    command: tuple[str, ...]
    """The arguments of the interpreter; the request file is appended."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The contents of its request besides the model, the pictures and the output."""
    environment: str = OWN


@dataclass(frozen=True)
class Conversion:
    """One run of a contender."""

    model: Path
    took_s: float
    peak_bytes: int
    """The peak resident memory of its process."""
    report: Mapping[str, Any]
    """For ours, bie.json."""


def contenders() -> tuple[Contender, ...]:
    """Returns the modes of this version, then the other tools."""
    modes: dict[str, dict[str, Any]] = {"ours, min-max": {"method": "minmax"}, "ours, no search": {"goal": "none"}}
    if "goal" in HostQuantization.model_fields:
        modes |= {"ours, snr>=20": {"goal": "snr>=20"}, "ours, smallest": {"goal": "smallest"}}
    own = ("-m", "ops.benchmarks.quantizers.ours")
    static = (str(HERE / "onnxruntime_static.py"),)
    return (
        *(Contender(name, own, {"options": {"quantization": values}}) for name, values in modes.items()),
        *(Contender(f"onnxruntime, {method}", static, {"method": method}) for method in METHODS),
        Contender("NNCF", (str(HERE / "nncf_default.py"),), environment="nncf"),
        *(
            Contender(f"Quark, {preset}", (str(HERE / "quark_preset.py"),), {"preset": preset}, "quark")
            for preset in QUARK_PRESETS
        ),
        *(
            Contender(f"AIMET, {name}", (str(HERE / "aimet_calibrated.py"),), request, "aimet")
            for name, request in AIMET_MODES.items()
        ),
        Contender("Neural Compressor", (str(HERE / "neural_compressor_static.py"),), environment="neural-compressor"),
    )


def convert(contender: Contender, inputs: Mapping[str, Any], preprocess: Mapping[str, Any], folder: Path) -> Conversion:
    """Runs it once.

    Args:
        inputs: the paths as {"float", "pictures", "arrays"}.
        preprocess: how pictures are prepared; the arrays already are.

    Raises:
        RuntimeError: It failed, took too long, or its environment is unavailable; with the end of its output.
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
    """Returns the peak resident bytes of the process."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": str(THREADS)}
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=log.parent)
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
