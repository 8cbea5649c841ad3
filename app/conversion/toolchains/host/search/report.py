"""The parts of the BIE report that tell of a search: goal, search, judgement."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.conversion.toolchains.host.search.candidates import rounded
from app.conversion.toolchains.host.search.judgement import FLOOR_DB, interval
from app.conversion.toolchains.host.search.search import Found
from app.conversion.toolchains.host.search.split import SEED

FEW = 10
"""Pictures below which a judgement is a guess."""
SENSITIVITIES_MAX = 400


def report_of(found: Found, budget_s: float) -> dict[str, Any]:
    """{goal, search, judgement}."""
    judgement = _judgement(found)
    is_reached = bool(judgement["is_met"])
    code, params = ("", {}) if is_reached else _reason(found, judgement)
    rows = sorted(found.rows, key=lambda row: row.snr_db)[:SENSITIVITIES_MAX]
    goal = {
        "text": found.goal.text,
        "kind": found.goal.kind,
        "threshold": found.goal.threshold,
        "budget_s": budget_s,
        "is_reached": is_reached,
        "reason_code": code or None,
        "reason_params": params,
    }
    search = {
        "seed": SEED,
        "elapsed_s": round(found.elapsed_s, 1),
        "ended_by": found.ended_by,
        "candidates": [candidate.to_dict() for candidate in found.candidates],
        "taken": found.taken.id,
        "sensitivity": [{"tensor": r.tensor, "layer": r.layer, "snr_db": rounded(r.snr_db)} for r in rows],
    }
    return {"goal": goal, "search": search, "judgement": judgement}


def _judgement(found: Found) -> dict[str, Any]:
    worst, split = found.report.worst, found.split
    known = interval(worst)
    agreement = found.report.agreement
    choose = split.size(*split.choose)
    return {
        "calibrate": split.size(0) if split.is_disjoint else len(split.part_of),
        "choose": choose,
        "report": split.size(split.report) if split.report is not None else choose,
        "is_own_set": split.is_disjoint,
        "n": int(worst.size),
        "mean_db": rounded(known.mean),
        "p5_db": rounded(float(np.percentile(worst, 5))) if worst.size else None,
        "min_db": rounded(found.report.lowest_db),
        "low_db": rounded(known.low),
        "high_db": rounded(known.high),
        "floor_db": FLOOR_DB,
        "is_met": _is_met(found),
        "task": {"kind": found.task, "float_agreement": rounded(float(agreement.mean()), 4), "n": int(agreement.size)},
    }


def _is_met(found: Found) -> bool:
    known, lowest, goal = interval(found.report.worst), found.report.lowest_db, found.goal
    if lowest is None or lowest < FLOOR_DB or not found.plan.nodes:
        return False
    if goal.kind == "snr":
        return known.low is not None and known.low >= (goal.threshold or 0.0)
    if goal.kind == "drop":
        return 100.0 * (1.0 - float(found.report.agreement.mean())) <= (goal.threshold or 0.0)
    if goal.kind == "fastest":
        return not is_slower_than_float(found)
    return True


def is_slower_than_float(found: Found) -> bool:
    latency, float_ms = found.taken.latency_ms, found.float_latency_ms
    return latency is not None and float_ms is not None and latency > float_ms


def _reason(found: Found, judgement: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What stands in the way, and the numbers of it."""
    best = {"best_db": judgement["mean_db"], "n": judgement["n"]}
    if found.goal.kind == "fastest":
        return "slower_than_float", {"int8_ms": found.taken.latency_ms, "float_ms": found.float_latency_ms}
    lowest = judgement["min_db"]
    if lowest is not None and lowest < FLOOR_DB and (judgement["mean_db"] or 0.0) >= (found.goal.threshold or 0.0):
        return "floor", best | {"min_db": lowest}
    if found.goal.kind == "snr" and (judgement["mean_db"] or 0.0) >= (found.goal.threshold or 0.0):
        return "spread", best | {"low_db": judgement["low_db"]}
    if found.ended_by == "budget":
        return "budget", best
    if found.weights_alone:
        return "weights", best | {"layers": list(found.weights_alone)}
    return "unreachable", best


def sentence(report: dict[str, Any]) -> str:
    """One line: whether the goal is met, and if not, what is and why."""
    goal, judgement = report["goal"], report["judgement"]
    few = "" if judgement["n"] >= FEW else f"; only {judgement['n']} pictures judged, so this is a guess"
    known = f"{judgement['mean_db']} dB on pictures it was not calibrated on, assured {judgement['low_db']}"
    if goal["is_reached"]:
        return f"goal {goal['text']} met: {known}{few}"
    params = goal["reason_params"]
    why = {
        "slower_than_float": "int8 is slower than float on this machine",
        "floor": f"one picture has {params.get('min_db')} dB, below the floor of {judgement['floor_db']:g}",
        "spread": "the pictures differ too much to be sure: more pictures would tell",
        "budget": "the budget was spent: allow more time",
        "weights": f"weights of {', '.join(params.get('layers', []))} in 8 bits cost most: 16 bits or retraining",
        "unreachable": "nothing that was tried reaches it",
    }[goal["reason_code"]]
    return f"goal {goal['text']} NOT met: {known}; {why}{few}"
