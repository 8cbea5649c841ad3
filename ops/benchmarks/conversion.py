"""A real model through the product, against the same toolchain calls in one plain script; imports are not counted.

Submit to COMPLETED is measured as a client sees it: POST /jobs, which checks the inputs (intake), then the events until
`done`. The plain side has the inputs in its folder already. It is measured twice: as a script that converts once and
ends, and as a process that has converted before and kept its memory, which is harder to match. All run in turn.
MODELMILL_BENCH_ROUNDS sets how often, 5 by default.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from modelmill_client.event_stream import events_of

from app.conversion.model import Stage
from app.conversion.options import Options
from app.conversion.toolchains import libraries
from app.conversion.toolchains.base import REF_IMAGES, StageRequest
from app.kit.clock import from_text
from tests.harness.deployment import Deployment
from tests.harness.paths import REPOSITORY

ROUNDS = int(os.environ.get("MODELMILL_BENCH_ROUNDS", "5"))
AIM_RATIO = 1.10
PRODUCT, SCRIPT, WARM = "product", "plain script", "warm process"
COLUMNS = (
    (SCRIPT, SCRIPT, "wall"),
    ("its CPU", SCRIPT, "cpu"),
    (WARM, WARM, "wall"),
    ("its CPU", WARM, "cpu"),
    ("sandbox", PRODUCT, "sandbox"),
    ("its CPU", PRODUCT, "cpu"),
    ("around it", PRODUCT, "around"),
    ("hop before", PRODUCT, "hop"),
)
"""(title, side, part)"""
SHARED = REPOSITORY.parent / "shared" / "data"
SAMPLE = REPOSITORY / "ops" / "samples" / "digits"
PREPROCESS = {"scale": 1.0, "mean": [127.0], "std": [128.0], "color": "RGB"}


@dataclass(frozen=True)
class Inputs:
    name: str
    model: Path
    pictures: Path
    """A zip."""
    options: dict[str, Any]


@dataclass(frozen=True)
class Timed:
    """Seconds. Of each stage: sandbox and cpu are the child's life and its CPU time, around what its worker does before
    and after, hop the time from the end of the stage before (or the record's creation) to the worker's beginning."""

    total: float
    intake: float
    sandbox: dict[str, float]
    cpu: dict[str, float]
    around: dict[str, float]
    hop: dict[str, float]


@dataclass(frozen=True)
class Plain:
    """Wall and CPU seconds of each stage."""

    wall: dict[str, float]
    cpu: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.wall.values())


def main() -> None:
    if sys.argv[-1] == "plain":
        _serve_plain()
        return
    with tempfile.TemporaryDirectory() as name, Deployment(Path(name)) as deployment:
        folder = Path(name)
        inputs = _inputs(folder)
        deployment.workers("actors", onnx=1, bie=1, nef=1, done=1)
        deployment.web()
        with httpx.Client(base_url=deployment.url, timeout=600) as client, plain_process(deployment.env) as warm:
            keys = _upload(client, inputs)
            sides: dict[str, Callable[[], Timed | Plain]] = {
                PRODUCT: lambda: _product(client, keys, inputs),
                SCRIPT: lambda: _script(deployment, folder, inputs),
                WARM: lambda: plain_conversion(warm, folder, inputs),
            }
            rounds = []
            for number in range(ROUNDS + 1):  # the first warms all up
                order = sorted(sides, key=lambda side: (list(sides).index(side) + number) % len(sides))
                rounds.append({side: sides[side]() for side in order})
    _print(inputs, rounds[1:])


def _inputs(folder: Path) -> Inputs:
    model = SHARED / "models" / "face_rfb_320.onnx"
    pictures = sorted((SHARED / "images").glob("face_*.jpg"))
    if not model.is_file() or not pictures:
        print(f"{model} or its pictures are absent: the bundled digits sample is measured in their place.")
        return Inputs("digits", SAMPLE / "digits.onnx", SAMPLE / "reference.zip", {"preprocess": {"scale": 1 / 255}})
    packed = folder / "pictures.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for picture in pictures:
            archive.write(picture, picture.name)
    return Inputs(f"{model.stem}, {len(pictures)} pictures", model, packed, {"preprocess": PREPROCESS})


def _upload(client: httpx.Client, inputs: Inputs) -> dict[str, str]:
    with inputs.model.open("rb") as model, inputs.pictures.open("rb") as pictures:
        files = {"model": (inputs.model.name, model), "images": ("pictures.zip", pictures)}
        answer = client.post("/uploads", files=files).raise_for_status().json()
    return {"model_key": answer["model_key"], "quant_key": answer["quant_key"]}


def _product(client: httpx.Client, keys: dict[str, str], inputs: Inputs) -> Timed:
    started = time.perf_counter()
    answer = client.post("/jobs", json={**keys, "options": inputs.options}).raise_for_status().json()
    submitted = time.perf_counter()
    with client.stream("GET", f"/jobs/{answer['job_id']}/events") as events:
        for event, data in events_of(events.iter_lines()):
            if event == "done":
                return _timed(json.loads(data), time.perf_counter() - started, submitted - started)
    raise SystemExit(f"the events of job {answer['job_id']} ended before it did")


def _timed(record: dict[str, Any], total: float, intake: float) -> Timed:
    if record["status"] != "COMPLETED":
        raise SystemExit(f"the job failed: {record['error']}")
    sandbox, cpu, around, hop = {}, {}, {}, {}
    before = _moment(record["created_at"])
    for stage in Stage:
        times = record["stages"][stage.step]
        begun, ended = _moment(times["started_at"]), _moment(times["finished_at"])
        sandbox[stage.step], cpu[stage.step] = times["summary"]["wall_s"], times["summary"]["cpu_s"]
        around[stage.step] = ended - begun - sandbox[stage.step]
        hop[stage.step] = begun - before
        before = ended
    return Timed(total, intake, sandbox, cpu, around, hop)


def _moment(text: str) -> float:
    return from_text(text).timestamp()


def plain_process(environment: Mapping[str, str] = os.environ) -> subprocess.Popen[str]:
    """A process of its own for `plain_conversion`, with the stages' libraries imported."""
    return subprocess.Popen(
        [sys.executable, "-m", "ops.benchmarks.conversion", "plain"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        text=True,
        env={**environment, "OPENBLAS_NUM_THREADS": "1"},  # as in the sandbox
    )


def _script(deployment: Deployment, folder: Path, inputs: Inputs) -> Plain:
    with plain_process(deployment.env) as process:
        return plain_conversion(process, folder, inputs)


def plain_conversion(process: subprocess.Popen[str], folder: Path, inputs: Inputs) -> Plain:
    """Prepare a work folder and have the plain process run its stages.

    Args:
        folder: Gets the work folder, and loses it.
    """
    work = folder / "plain"
    (work / REF_IMAGES).mkdir(parents=True)
    shutil.copy(inputs.model, work)
    with zipfile.ZipFile(inputs.pictures) as archive:
        archive.extractall(work / REF_IMAGES)
    assert process.stdin is not None and process.stdout is not None
    print(json.dumps({"work": str(work), "options": inputs.options}), file=process.stdin, flush=True)
    ready = json.loads(process.stdout.readline())
    shutil.rmtree(work)
    return Plain(**ready)


def _serve_plain() -> None:
    """The plain process: a line with a work folder in, a line with the seconds of each stage out."""
    for module in libraries.of_stages(Stage):
        importlib.import_module(module)
    from app.conversion.toolchains.host.toolchain import HostToolchain
    from app.settings import load_settings

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the toolchain prints
    toolchain, threads = HostToolchain(), load_settings().threads
    for line in sys.stdin:
        order, wall, cpu = json.loads(line), {}, {}
        for stage in Stage:
            request = StageRequest(stage, Path(order["work"]), Options.model_validate(order["options"]), threads)
            started, cpu_started = time.perf_counter(), time.process_time()
            toolchain.run(request, lambda *_: None)
            wall[stage.step] = time.perf_counter() - started
            cpu[stage.step] = time.process_time() - cpu_started
        print(json.dumps({"wall": wall, "cpu": cpu}), file=answers)


def _print(inputs: Inputs, rounds: list[dict[str, Any]]) -> None:
    print(f"\n{inputs.name}: {ROUNDS} rounds in turn, medians in ms")
    print(f"{'stage':6}" + "".join(f" {title:>13}" for title, _, _ in COLUMNS))
    for step in (stage.step for stage in Stage):
        cells = [_median(getattr(round_[side], part)[step] for round_ in rounds) for _, side, part in COLUMNS]
        print(f"{step:6}" + "".join(f" {cell:>13}" for cell in cells))
    intake = _median(round_[PRODUCT].intake for round_ in rounds)
    print(f"submit → COMPLETED {_median(round_[PRODUCT].total for round_ in rounds)}, of it the submission {intake}")
    for side in (SCRIPT, WARM):
        whole = statistics.median(round_[PRODUCT].total / round_[side].total for round_ in rounds)
        fastest = min(round_[PRODUCT].total for round_ in rounds) / min(round_[side].total for round_ in rounds)
        print(f"against the {side} ({_median(round_[side].total for round_ in rounds)}):", end=" ")
        print(f"ratio {whole:.3f}, of the fastest rounds {fastest:.3f}; aim {AIM_RATIO:.2f}")


def _median(seconds: Iterable[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.0f}"


if __name__ == "__main__":
    main()
