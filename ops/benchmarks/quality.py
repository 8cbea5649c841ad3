"""`ops/bench quality [--models NAMES] [--only NAMES] [--pictures N]`: our quantization beside other tools'.

Real models of the shared data; ranges are set on some pictures, and all are judged on others. The float model is the
one that our optimizer made; everybody starts from it. NNCF gets an environment of its own under .venv-peers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from app.conversion.intake.preprocess_recognition import recognize
from app.conversion.model import Stage
from app.conversion.options import Options
from app.conversion.service.quality.candidates import read_search
from app.conversion.toolchains import graph
from app.conversion.toolchains.base import OUTPUTS, REF_IMAGES, StageRequest
from app.conversion.toolchains.host.toolchain import HostToolchain
from app.conversion.toolchains.samples import SampleSet
from ops.benchmarks.quantizers.contenders import Contender, Conversion, contenders, convert
from ops.benchmarks.quantizers.judge import Judged, Sample, judge
from ops.benchmarks.quantizers.pictures import write_parts
from tests.harness.paths import SHARED_DATA

PICTURES = 50
MODELS = (
    "face_rfb_320_nopost",
    "face_yunet_n_320_320",
    "det_fastestdet_352",
    "det_yolox_nano_416",
    "face_rfb_320",
    "face_slim_320",
    "headpose_fsanet_var",
    "headpose_fsanet_1x1",
)
HEAD = (
    f"{'':24} {'SNR dB':>7} {'worst':>7} {'task':>10} {'agrees':>7} {'ms':>7} {'kB':>8} {'int8 %':>7} {'took s':>7} "
    f"{'MiB':>6}"
)
MIB = 1 << 20


def main(arguments: Sequence[str] = ()) -> None:
    names = [contender.name for contender in contenders()]
    parser = argparse.ArgumentParser(prog="ops/bench quality")
    parser.add_argument("--models", default=",".join(MODELS), help=f"of shared/data/models; default {','.join(MODELS)}")
    parser.add_argument(
        "--only", default="", help=f"beginnings of names, joined by commas without a space: {'; '.join(names)}"
    )
    parser.add_argument("--pictures", type=int, default=PICTURES, help=f"of each part at most; default {PICTURES}")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    chosen_options = parser.parse_args(arguments)
    try:
        chosen = choose(chosen_options.only)
    except ValueError as error:
        parser.error(str(error))
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="modelmill-quality-") as folder:
        parts = write_parts(SHARED_DATA, Path(folder), chosen_options.pictures)
        print(f"{' and '.join(str(len(list(part.iterdir()))) for part in parts)} pictures set ranges and judge")
        for name in chosen_options.models.split(","):
            place = Path(folder) / name
            place.mkdir()
            rows += measure_model(name, place, parts, chosen)
            shutil.rmtree(place)
    if chosen_options.json:
        chosen_options.json.write_text(json.dumps(rows, indent=2), encoding="utf-8")


def choose(only: str) -> list[Contender]:
    """Returns the contenders whose names begin so; all for an empty text.

    Args:
        only: beginnings joined by commas; a comma before a space is part of a name.

    Raises:
        ValueError: No name begins so.
    """
    parts = [part.strip() for part in re.split(r",(?! )", only)]
    unknown = [part for part in parts if not any(c.name.startswith(part) for c in contenders())]
    if unknown:
        raise ValueError(f"no name begins with {unknown[0]!r}")
    return [c for c in contenders() if any(c.name.startswith(part) for part in parts)]


def measure_model(
    name: str, folder: Path, parts: tuple[Path, Path], chosen: Sequence[Contender]
) -> list[dict[str, Any]]:
    """Print the table of one model. folder: empty. parts: pictures that set the ranges, and that judge."""
    source = SHARED_DATA / "models" / f"{name}.onnx"
    recognition = recognize(onnx.load(source))
    if recognition is None:
        print(f"\n{name}: it takes no pictures")
        return []
    preprocess = recognition.preprocess.to_json()
    float_path = _optimized(source, folder, preprocess)
    inputs = _inputs(float_path, folder, parts[0], recognition.preprocess)
    samples = _samples(float_path, parts[1], recognition.preprocess)
    print(f"\n{name}, {recognition.summary}\n{HEAD}", flush=True)
    reference = judge(float_path, float_path, samples)
    print(_line("float", None, reference), flush=True)
    rows: list[dict[str, Any]] = []
    for contender in chosen:
        try:
            conversion = convert(contender, inputs, preprocess, folder)
            judged = judge(float_path, conversion.model, samples)
        except Exception as error:  # noqa: BLE001  # what fails in a peer is a row of the table
            print(f"{contender.name:24} failed: {type(error).__name__}: {str(error)[:160]}", flush=True)
            rows.append({"model": name, "tool": contender.name, "failure": str(error)})
            continue
        print(_line(contender.name, conversion, judged), flush=True)
        figures: dict[str, Any] = {"model": name, "tool": contender.name, "took_s": conversion.took_s}
        search = read_search(dict(conversion.report))
        figures["tensors_in_8_bits"] = search.taken.int8_share if search and search.taken else None
        rows.append({**figures, **vars(judged), "peak_bytes": conversion.peak_bytes})
    return rows


def _optimized(source: Path, folder: Path, preprocess: Mapping[str, Any]) -> Path:
    """out.onnx of our first stage."""
    work = folder / "float"
    work.mkdir()
    shutil.copyfile(source, work / "model.onnx")
    (work / REF_IMAGES).mkdir()
    options = Options.model_validate({"preprocess": preprocess})
    request = StageRequest(Stage.ONNX, work, options, 2)
    with contextlib.redirect_stdout(sys.stderr):
        HostToolchain().run(request, lambda fraction, text: None)
    return work / OUTPUTS[Stage.ONNX]


def _inputs(float_path: Path, folder: Path, pictures: Path, preprocess: Any) -> dict[str, str]:
    arrays = np.concatenate(
        [next(iter(sample.arrays.values())) for sample in _samples(float_path, pictures, preprocess)]
    )
    np.save(folder / "arrays.npy", arrays)
    return {"float": str(float_path), "pictures": str(pictures), "arrays": str(folder / "arrays.npy")}


def _samples(float_path: Path, pictures: Path, preprocess: Any) -> list[Sample]:
    inputs = graph.graph_inputs(onnx.load(float_path))
    return [Sample(entry.name, dict(entry.arrays)) for entry in SampleSet(pictures, inputs, preprocess)]


def _line(name: str, conversion: Conversion | None, judged: Judged) -> str:
    numbers = f"{_number(judged.snr_db, 1):>7} {_number(judged.snr_min_db, 1):>7} {judged.task:>10}"
    numbers += f" {_number(judged.agreement, 3):>7} {_number(judged.latency_ms, 2):>7} {judged.size_bytes / 1000:8.0f}"
    numbers += f" {100 * judged.int8_share:7.0f}"
    if conversion is not None:
        numbers += f" {conversion.took_s:7.1f} {conversion.peak_bytes / MIB:6.0f}"
    return f"{name:24} {numbers}"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
