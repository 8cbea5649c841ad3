"""Climbs the vendor's ladder: one complete vendor run per rung, until the goal or the budget is reached. The runs are
kept in a journal, so a process that continues a killed one repeats none of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from app.conversion.goals import Goal
from app.conversion.toolchains.base import Progress
from app.conversion.toolchains.budget import Budget
from app.conversion.toolchains.journal import Journal
from app.conversion.toolchains.kneron.ladder import Rung, Tried, chosen, goal_report, is_enough, search_report
from app.conversion.toolchains.kneron.report import VendorReport
from app.conversion.toolchains.kneron.vendor import RunnerResult
from app.kit.errors import ModelmillError
from app.kit.sandbox.errors import StageFailed
from app.kit.text.json_values import JsonObject


@dataclass(frozen=True)
class Quantized:
    """The output of one vendor run: its result, its report, the BIE file and the files beside it."""

    result: RunnerResult
    measured: VendorReport
    bie: Path
    size_bytes: int
    """Of the BIE file, which is removed if another rung is better."""


Quantize = Callable[[Rung, int, Progress], Quantized]
"""Runs a rung with this number; raises StageFailed."""


@dataclass(frozen=True)
class LadderResult:
    taken: Tried
    quantized: Quantized
    report: JsonObject
    """{"goal", "search"} of the BIE report."""


def search_ladder(
    ladder: list[Rung],
    goal: Goal,
    budget_s: float,
    quantize: Quantize,
    progress: Progress,
    kept_in: tuple[Path | None, str] = (None, ""),
) -> LadderResult:
    """Tries rung after rung. A run in progress is not interrupted; none is started that would exceed the budget if it
    took as long as the longest so far.

    Args:
        ladder: from the cheapest way to quantize to the best.
        budget_s: seconds for all runs together.
        quantize: runs a rung; called with the rung, its number, and where to report progress.
        progress: called with the share that is done, from 0 to 1, and the current step.
        kept_in: file that keeps the runs, for a process that continues this one, and digest of the work.

    Raises:
        StageFailed: All rungs failed; the error of the first one.
    """
    tried: list[Tried] = []
    made: dict[int, Quantized] = {}
    first_failure: ModelmillError | None = None
    budget, longest, ended_by = Budget(budget_s), 0.0, "exhausted"
    journal = Journal(*kept_in, budget)
    for number, rung in enumerate(ladder):
        if tried and budget.elapsed_s + longest > budget_s:
            ended_by = "budget"
            break
        started = budget.elapsed_s
        run = _run(journal, quantize, rung, number, _share_of(progress, number, len(ladder), rung.name))
        if isinstance(run, Quantized):
            facts, made[number] = run.measured, run
            bits = facts.get("bits", {})
            tried.append(Tried(rung, facts.get("snr_db"), facts.get("fps"), run.size_bytes, bits=bits))
        else:
            first_failure = first_failure or run
            tried.append(Tried(rung, failure=run.message))
        longest = max(longest, budget.elapsed_s - started)
        print(_format_rung(tried[-1]))
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
        "search": search_report(goal, tried, elapsed_s=budget.elapsed_s, ended_by=ended_by),
    }
    return LadderResult(taken, made[tried.index(taken)], report)


def _run(
    journal: Journal, quantize: Quantize, rung: Rung, number: int, progress: Progress
) -> Quantized | ModelmillError:
    """Runs a rung unless the journal has it; returns the error if it fails."""

    def run() -> JsonObject:
        try:
            quantized = quantize(rung, number, progress)
        except StageFailed as error:
            return {"failure": error.to_dict()}
        return vars(quantized) | {"bie": str(quantized.bie)}

    try:
        row: JsonObject = journal.remember(f"rung {rung.name}", run)
    except StageFailed as error:  # it ended its process each time
        return error
    if "failure" in row:
        return ModelmillError.from_dict(row["failure"])
    return Quantized(**row | {"bie": Path(row["bie"])})


def _keep_best(goal: Goal, tried: list[Tried], made: dict[int, Quantized]) -> None:
    """Removes the files of all rungs but the best, because a BIE may be large."""
    best = chosen(goal, tried)
    for number in [number for number in made if tried[number] is not best]:
        shutil.rmtree(made[number].bie.parent, ignore_errors=True)
        made[number] = replace(made[number], result=RunnerResult())


def _share_of(progress: Progress, number: int, of: int, name: str) -> Progress:
    def report(fraction: float, text: str) -> None:
        progress((number + fraction) / of, f"{name}: {text}")

    return report


def _format_rung(tried: Tried) -> str:
    if tried.failure:
        return f"candidate {tried.rung.name}: failed: {tried.failure}"
    snr = "no SNR reported" if tried.snr_db is None else f"{tried.snr_db:g} dB"
    return f"candidate {tried.rung.name}: {snr}, {tried.latency_ms or 0:g} ms"
