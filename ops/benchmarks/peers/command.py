"""`ops/bench peers [--only NAMES] [--rounds N]`"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence

from ops.benchmarks.peers.measurement import Round, measure
from ops.benchmarks.peers.systems import SYSTEMS, System
from ops.benchmarks.peers.table import lines, row

ROUNDS, IDLE_S = 3, 10.0
NAMES = tuple(system.name for system in SYSTEMS)


def main(arguments: Sequence[str] = ()) -> None:
    parsed = _parse(arguments)
    systems = [s for s in SYSTEMS if (s.name in parsed.only if parsed.only else s.is_default)]
    started = time.monotonic()
    rounds, failures = _measure_in_turn(systems, parsed.rounds)
    rows = [row(s.name, rounds[s.name], s.at_once) for s in systems if s.name not in failures]
    print(f"\nThree no-op stages, one worker each, {parsed.rounds} rounds in turn, {time.monotonic() - started:.0f} s")
    print("p50 and p95 of one job at a time on an idle system; jobs/s of many queued at once; CPU time of a job that")
    print("comes alone, and of one of many queued, with Redis; PSS of all the system's processes without Redis; idle")
    print("CPU of one core, with Redis; jobs: one by one / at once in each round.")
    print("\n".join(lines(rows, failures)))


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ops/bench peers")
    parser.add_argument("--only", type=_names, default=[], metavar="NAMES", help=f"some of: {','.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default {ROUNDS}")
    parsed = parser.parse_args(arguments)
    if parsed.rounds < 1:
        parser.error("--rounds: at least 1")
    return parsed


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known are {', '.join(NAMES)}")
    return names


def _measure_in_turn(systems: list[System], count: int) -> tuple[dict[str, list[Round]], dict[str, str]]:
    """What failed once is not tried again, and why it failed is told."""
    rounds: dict[str, list[Round]] = {system.name: [] for system in systems}
    failures: dict[str, str] = {}
    for number in range(count):
        for system in (systems[(at + number) % len(systems)] for at in range(len(systems))):
            if system.name in failures:
                continue
            print(f"round {number + 1}: {system.name}", file=sys.stderr)
            try:
                measurement = measure(system, jobs=math.ceil(system.one_by_one / count), idle_s=IDLE_S / count)
                rounds[system.name].append(measurement)
            except RuntimeError as error:
                failures[system.name] = str(error)
    return rounds, failures
