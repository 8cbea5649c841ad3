"""`ops/bench goal_cost [--models NAMES] [--pictures N] [--rounds N]`: CPU of a search, beside a plain conversion's.

Both convert real models of the shared data in all stages, in turn and in one process that has its imports; CPU time
is that of the process with all its threads, which other programs on the machine change little.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from app.conversion.intake.preprocess_recognition import recognize
from ops.benchmarks.conversion import Inputs, Plain, plain_conversion, plain_process
from ops.benchmarks.quality import MODELS
from ops.benchmarks.quantizers.pictures import write_parts
from tests.harness.paths import SHARED_DATA

PICTURES, ROUNDS = 50, 3
PLAIN, SEARCH = "plain", "goal"
SIDES: Mapping[str, Mapping[str, str]] = {PLAIN: {"method": "minmax"}, SEARCH: {"goal": "snr>=20"}}
LARGE_BYTES = 50 << 20
AIM, AIM_OF_LARGE = 5.0, 2.0
"""The multiples of a plain conversion for models up to and above LARGE_BYTES."""


@dataclass(frozen=True)
class Cost:
    """CPU seconds as medians of the rounds."""

    plain_s: float
    goal_s: float
    bie_s: float
    """Only of the search's stage."""

    @property
    def ratio(self) -> float:
        return self.goal_s / self.plain_s


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="ops/bench goal_cost")
    parser.add_argument("--models", default=",".join(MODELS), help=f"of shared/data/models; default {','.join(MODELS)}")
    parser.add_argument("--pictures", type=int, default=PICTURES, help=f"of reference; default {PICTURES}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    chosen = parser.parse_args(arguments)
    print(f"CPU s of all stages, {chosen.pictures} pictures, medians of {chosen.rounds} rounds")
    print(f"{'':24} {'plain':>8} {'goal':>8} {'its BIE':>8} {'ratio':>6} {'aim':>5}")
    with tempfile.TemporaryDirectory(prefix="modelmill-goal-cost-") as name, plain_process() as process:
        folder = Path(name)
        pictures, _ = write_parts(SHARED_DATA, folder, chosen.pictures)
        packed = Path(shutil.make_archive(str(folder / "pictures"), "zip", pictures))
        for model in (SHARED_DATA / "models" / f"{name}.onnx" for name in chosen.models.split(",")):
            recognition = recognize(onnx.load(model))
            preprocess = recognition.preprocess.to_json() if recognition else {}
            sides = {
                side: Inputs(model.stem, model, packed, {"preprocess": preprocess, "quantization": dict(options)})
                for side, options in SIDES.items()
            }
            rounds = [
                {side: plain_conversion(process, folder, inputs) for side, inputs in _in_turn(sides, number)}
                for number in range(chosen.rounds)
            ]
            cost = cost_of(rounds)
            aim = AIM_OF_LARGE if model.stat().st_size > LARGE_BYTES else AIM
            numbers = f"{cost.plain_s:8.2f} {cost.goal_s:8.2f} {cost.bie_s:8.2f} {cost.ratio:6.2f} {aim:5.1f}"
            print(f"{model.stem:24} {numbers}", flush=True)


def cost_of(rounds: Sequence[Mapping[str, Plain]]) -> Cost:
    """Args: rounds: By side, PLAIN and SEARCH."""
    totals = {side: statistics.median(sum(one[side].cpu.values()) for one in rounds) for side in SIDES}
    return Cost(totals[PLAIN], totals[SEARCH], statistics.median(one[SEARCH].cpu["bie"] for one in rounds))


def _in_turn(sides: Mapping[str, Inputs], number: int) -> list[tuple[str, Inputs]]:
    return list(sides.items())[:: -1 if number % 2 else 1]
