"""Climbs the vendor's ladder: one complete vendor run per rung, until the goal or the budget is reached."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.conversion.goals import Goal
from app.conversion.toolchains.base import Progress
from app.conversion.toolchains.kneron.ladder import Rung, Tried, chosen, goal_report, is_enough, search_report
from app.kit.sandbox.errors import StageFailed


@dataclass(frozen=True)
class Quantized:
    """The output of one vendor run: its result, its report, the BIE file and the files beside it."""

    result: dict[str, Any]
    measured: dict[str, Any]
    bie: Path


Quantize = Callable[[Rung, int, Progress], Quantized]
"""Runs a rung with this number. Raises StageFailed."""


@dataclass(frozen=True)
class LadderResult:
    taken: Tried
    quantized: Quantized
    report: dict[str, Any]
    """{"goal", "search"} of the BIE report."""


def search_ladder(
    ladder: list[Rung], goal: Goal, budget_s: float, quantize: Quantize, progress: Progress
) -> LadderResult:
    """Tries rung after rung. A run in progress is not interrupted; none is started that would exceed the budget if it
    took as long as the longest so far.

    Args:
        ladder: from the cheapest way to quantize to the best.
        budget_s: seconds for all runs together.
        quantize: runs a rung; called with the rung, its number, and where to report progress.
        progress: called with the share that is done, from 0 to 1, and the current step.

    Raises:
        StageFailed: All rungs failed; the error of the first one.
    """
    tried: list[Tried] = []
    made: dict[int, Quantized] = {}
    first_failure: StageFailed | None = None
    begun, longest, ended_by = time.monotonic(), 0.0, "exhausted"
    for number, rung in enumerate(ladder):
        if tried and time.monotonic() - begun + longest > budget_s:
            ended_by = "budget"
            break
        started = time.monotonic()
        try:
            quantized = quantize(rung, number, _share_of(progress, number, len(ladder), rung.name))
        except StageFailed as error:
            first_failure = first_failure or error
            tried.append(Tried(rung, failure=error.message))
        else:
            made[number] = quantized
            tried.append(_measured(rung, quantized))
        longest = max(longest, time.monotonic() - started)
        print(_line(tried[-1]))
        _keep_best(goal, tried, made)
        if is_enough(goal, tried[-1]):
            ended_by = "reached"
            break
    taken = chosen(goal, tried)
    if taken is None:
        assert first_failure is not None  # a ladder has a first rung
        raise first_failure
    report = {
        "goal": goal_report(goal, tried, budget_s),
        "search": search_report(goal, tried, elapsed_s=time.monotonic() - begun, ended_by=ended_by),
    }
    return LadderResult(taken, made[tried.index(taken)], report)


def _measured(rung: Rung, quantized: Quantized) -> Tried:
    facts = quantized.measured
    size = quantized.bie.stat().st_size
    return Tried(rung, facts.get("snr_db"), facts.get("fps"), size, bits=facts.get("bits", {}))


def _keep_best(goal: Goal, tried: list[Tried], made: dict[int, Quantized]) -> None:
    """Removes the files of all rungs but the best, because a BIE may be large."""
    best = chosen(goal, tried)
    for number in [number for number in made if tried[number] is not best]:
        shutil.rmtree(made[number].bie.parent, ignore_errors=True)
        made[number] = replace(made[number], result={})


def _share_of(progress: Progress, number: int, of: int, name: str) -> Progress:
    def report(fraction: float, text: str) -> None:
        progress((number + fraction) / of, f"{name}: {text}")

    return report


def _line(tried: Tried) -> str:
    if tried.failure:
        return f"candidate {tried.rung.name}: failed: {tried.failure}"
    snr = "no SNR reported" if tried.snr_db is None else f"{tried.snr_db:g} dB"
    return f"candidate {tried.rung.name}: {snr}, {tried.latency_ms or 0:g} ms"
