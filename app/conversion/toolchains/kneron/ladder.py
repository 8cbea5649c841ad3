"""The vendor's ladder towards a goal: int8, mix light, mixbw, int16, each rung dearer and more precise than the last.

Pure. Source: vendor manual v0.33.1: "if SNR < 20 dB, mix light; then mixbw; last int16"; mmse and outlier_factor where
clamping hurts. KL520 knows int8 only, so the range method is all it can choose. Each rung is a whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.conversion.goals import Goal
from app.conversion.options import Chip, KneronOptions, bitwidth_problem
from app.kit.text.json_values import JsonObject

SIDES_16 = dict.fromkeys(("model_in_bitwidth_mode", "model_out_bitwidth_mode", "cpu_node_bitwidth_mode"), "int16")
SNR_MODE = 2
"""From this mode on, the vendor's report contains an SNR."""


@dataclass(frozen=True)
class Rung:
    name: str
    options: KneronOptions
    changes: Mapping[str, Any]
    """The options that it sets, by the vendor's names."""


@dataclass(frozen=True)
class Tried:
    """A rung and the result of its run."""

    rung: Rung
    snr_db: float | None = None
    """According to the vendor's report, for its one picture."""
    fps: float | None = None
    size_bytes: int | None = None
    failure: str = ""
    bits: Mapping[str, str] = field(default_factory=dict)
    """The effective bit widths, by side."""

    @property
    def latency_ms(self) -> float | None:
        """Returns the latency of the NPU that the vendor's evaluator expects."""
        return round(1000 / self.fps, 3) if self.fps else None


def rungs(chip: Chip, options: KneronOptions) -> list[Rung]:
    """Returns the rungs in the order of their trials, without those that the chip does not support."""
    mmse = {"datapath_range_method": "mmse"}
    steps: list[tuple[str, JsonObject]] = [
        ("int8", {}),
        ("int8, mmse", mmse),
        ("int8, mmse, outlier factor 2", {**mmse, "outlier_factor": 2.0}),
        ("mix light", _set_both("mix light") | SIDES_16),
        ("mixbw, flops ratio 0.2", _set_both("mixbw") | SIDES_16 | {"flops_ratio": 0.2}),
        ("mixbw, flops ratio 0.5", _set_both("mixbw") | SIDES_16 | {"flops_ratio": 0.5}),
        ("int16", _set_both("int16") | SIDES_16),
    ]
    if chip is not Chip.KL520:
        steps = [step for step in steps if "outlier_factor" not in step[1]]
    base = {"mode": max(options.mode, SNR_MODE)}
    made = [Rung(name, options.model_copy(update=base | changes), base | changes) for name, changes in steps]
    return [rung for rung in made if not bitwidth_problem(chip, rung.options)]


def _set_both(mode: str) -> JsonObject:
    return {"datapath_bitwidth_mode": mode, "weight_bitwidth_mode": mode}


def is_enough(goal: Goal, tried: Tried) -> bool:
    """Returns whether no further rung has to be tried."""
    if tried.failure:
        return False
    if goal.kind == "snr" and goal.threshold is not None and tried.snr_db is not None:
        return tried.snr_db >= goal.threshold
    return True  # fastest and smallest are the first rung; without an SNR no rung can be told from another


def chosen(goal: Goal, tried: Sequence[Tried]) -> Tried | None:
    """Returns the first rung that meets the goal, else the one with the best SNR; None if all failed."""
    sound = [each for each in tried if not each.failure]
    enough = next((each for each in sound if is_enough(goal, each)), None)
    return enough or max(sound, key=lambda each: each.snr_db or float("-inf"), default=None)


def search_report(goal: Goal, tried: Sequence[Tried], *, elapsed_s: float, ended_by: str) -> JsonObject:
    """Returns the "search" part of the BIE report, in the form of the host toolchain.

    Args:
        tried: the rungs in the order of their runs.
        ended_by: "reached", "budget" or "exhausted".
    """
    taken = chosen(goal, tried)
    rows = [_describe_candidate(number, each, goal, is_taken=each is taken) for number, each in enumerate(tried)]
    number = next((row["id"] for row in rows if row["is_taken"]), None)
    head = {"seed": 0, "elapsed_s": round(elapsed_s, 1), "ended_by": ended_by}
    return {**head, "candidates": rows, "taken": number, "sensitivity": []}


def goal_report(goal: Goal, tried: Sequence[Tried], budget_s: float) -> JsonObject:
    """Returns the "goal" part of the BIE report."""
    taken = chosen(goal, tried)
    reason, params = _describe_reason(goal, taken)
    return {
        "text": goal.text,
        "kind": goal.kind,
        "threshold": goal.threshold,
        "budget_s": budget_s,
        "is_reached": reason is None,
        "reason_code": reason,
        "reason_params": params,
    }


def _describe_reason(goal: Goal, taken: Tried | None) -> tuple[str | None, JsonObject]:
    if taken is None:
        return "all_failed", {}
    if goal.kind == "drop":
        return "drop_not_on_chip", {}
    if goal.kind != "snr":
        return None, {}
    if taken.snr_db is None:
        return "snr_not_reported", {}
    return (
        (None, {}) if is_enough(goal, taken) else ("best_reachable", {"snr_db": taken.snr_db, "name": taken.rung.name})
    )


def _describe_candidate(number: int, tried: Tried, goal: Goal, *, is_taken: bool) -> JsonObject:
    below = goal.kind == "snr" and not is_enough(goal, tried)
    code = "taken" if is_taken else "failed" if tried.failure else "below_goal" if below else "dearer"
    return {
        "id": number,
        "name": tried.rung.name,
        "steps": [],
        "options": dict(tried.rung.changes),
        "snr_db": tried.snr_db,
        "snr_min_db": None,
        "int8_share": None,
        "tensors_16": None,
        "size_bytes": tried.size_bytes,
        "latency_ms": tried.latency_ms,
        "drop_percent": None,
        "is_taken": is_taken,
        "is_measured": not tried.failure,
        "verdict_code": code,
        "failure": tried.failure,
        "bits": dict(tried.bits),
    }
