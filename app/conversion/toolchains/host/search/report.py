"""The result of a search in the BIE report: its parts goal, search and judgement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.conversion.goals import Goal
from app.conversion.toolchains.budget import Budget
from app.conversion.toolchains.first_bad_layer import FirstBadLayer
from app.conversion.toolchains.host.search.candidates import Trail, TriedCandidate
from app.conversion.toolchains.host.search.interval import interval_of
from app.conversion.toolchains.host.search.score import FLOOR_DB, Score
from app.conversion.toolchains.host.search.sensitivity import Sensitivity
from app.conversion.toolchains.host.search.shortfall import SIXTEEN_BITS, Shortfall
from app.conversion.toolchains.host.search.split import SEED, Split
from app.kit.text.json_values import JsonObject

SENSITIVITIES_MOST = 400


@dataclass(frozen=True)
class SearchOutcome:
    """How a search ended.

    Args:
        taken: the chosen one of the trail's candidates.
        reported: its score on the pictures that report.
        is_met: that score reaches the goal.
        ended_by: "reached", "given", "budget", "last_resort" (of the clock, where a budget of CPU time was not used up)
            or "exhausted".
        first_bad: where 8 bits first miss the goal; None if they reach it, or if there was no time to find out.
        shortfall: why the taken one misses the goal; None if it does not, or if there was no time to find out.
    """

    goal: Goal
    budget: Budget
    trail: Trail
    taken: TriedCandidate
    rows: Sequence[Sensitivity]
    split: Split
    reported: Score
    is_met: bool
    ended_by: str
    float_latency_ms: float | None
    first_bad: FirstBadLayer | None = None
    shortfall: Shortfall | None = None

    def goal_report(self) -> JsonObject | None:
        """None if no goal was named."""
        if not self.goal.text:
            return None
        is_reached = self.taken.is_good and self.is_met
        reason, params = ("", {}) if is_reached else self._explain_miss()
        return {
            "text": self.goal.text,
            "kind": self.goal.kind,
            "threshold": self.goal.threshold,
            "budget_s": min(self.budget.clock_s, self.budget.cpu_seconds),
            "is_cpu_budget": self.budget.seconds is None,
            "is_reached": is_reached,
            "reason_code": reason or None,
            "reason_params": params,
        }

    def search_report(self) -> JsonObject:
        rows = sorted(self.rows, key=lambda row: row.snr_db)[:SENSITIVITIES_MOST]
        return {
            "seed": SEED,
            "elapsed_s": round(self.budget.elapsed_s, 1),
            "cpu_s": round(self.budget.cpu_s, 1),
            "ended_by": self.ended_by,
            "is_cut": self.budget.is_cut,
            "candidates": self.trail.to_json(),
            "taken": self.taken.id,
            "float_latency_ms": self.float_latency_ms,
            "shortfall": _to_json(self.shortfall),
            "first_bad": _to_json(self.first_bad),
            "sensitivity": [
                {"tensor": row.tensor, "layer": row.layer or row.tensor, "snr_db": round(row.snr_db, 2)} for row in rows
            ],
        }

    def judgement(self) -> JsonObject:
        split, score = self.split, self.reported
        values = score.values
        low, high = interval_of(values)
        return {
            "calibrate": split.size(*split.final),
            "choose": split.size(*split.choose),
            "report": split.size(split.report) if split.report is not None else split.size(*split.choose),
            "is_own_set": split.is_own_set,
            "n": len(values),
            "uncounted": score.uncounted.get(score.worst_output, 0),
            "mean_db": _round(score.mean_db if values else None),
            "p5_db": _round(float(np.percentile(values, 5)) if values else None),
            "min_db": _round(score.min_db if values else None),
            "low_db": _round(low),
            "high_db": _round(high),
            "floor_db": FLOOR_DB,
            "weak": score.weak.get(score.worst_output, 0),
            "floor_min_db": _round(score.floor_db if values else None),
            "altered_db": _round(self.taken.altered_db),
            "refused": sum(one.misses_unseen for one in self.trail.candidates),
            "is_met": self.is_met if self.goal.kind == "snr" and values else None,
            "task": None,
        }

    def _explain_miss(self) -> tuple[str, JsonObject]:
        """Returns why the goal is not reached, and the best that is reachable."""
        best: JsonObject = {"snr_db": _round(self.taken.score.mean_db)}
        if self.goal.kind == "drop" and self.taken.score.drop_percent is None:
            return "no_task", best
        if self.shortfall is not None and self.shortfall.is_whole and self.shortfall.code == SIXTEEN_BITS:
            return SIXTEEN_BITS, best
        if self.taken.is_good or any(one.misses_unseen for one in self.trail.candidates):
            return "unseen_pictures", best
        if self.ended_by in ("budget", "last_resort"):
            return self.ended_by, best
        if self.goal.threshold is not None and self.taken.score.mean_db >= self.goal.threshold:
            return "uneven_pictures", best | {"snr_min_db": _round(self.taken.score.floor_db)}
        return "out_of_reach", best


def _to_json(explanation: FirstBadLayer | Shortfall | None) -> JsonObject | None:
    """Returns the fields, their numbers rounded to two digits and their tuples as lists."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return [plain(each) for each in value]
        return round(value, 2) if isinstance(value, float) else value

    return None if explanation is None else {name: plain(value) for name, value in vars(explanation).items()}


def _round(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(float(value), 2)
