"""The search of a conversion for its goal, from its report: the candidates and the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from app.conversion.goals import GoalKind
from app.conversion.options import NO_GOAL, ToolchainName
from app.conversion.toolchains.first_bad_layer import FirstBadLayer
from app.kit.text.json_values import JsonObject

KNOBS = ("method", "percentile", "per_channel", "steps")
"""Of the quantization: what a goal decides by itself."""
Number = TypeVar("Number", int, float)
Measure = Literal["snr", "task"]
"""What the quality of candidates is compared by: SNR of the worst output, or loss of the task."""


@dataclass(frozen=True)
class Candidate:
    """One way to quantize the model, and what it came to."""

    id: int
    name: str
    snr_db: float | None = None
    """Of the worst output, mean over the pictures it was judged on."""
    snr_min_db: float | None = None
    altered_db: float | None = None
    """What is sure of altered pictures; None if they were not tried."""
    int8_share: float | None = None
    """0..1 of the tensors."""
    size_bytes: int | None = None
    latency_ms: float | None = None
    drop_percent: float | None = None
    """Of the task metric against float."""
    is_taken: bool = False
    is_measured: bool = False
    """Built and run; else simulated."""
    verdict_code: str = ""
    steps: tuple[JsonObject, ...] = ()
    options: JsonObject = field(default_factory=dict)
    """The vendor's arguments, for a candidate of the kneron ladder."""
    expected_db: float | None = None
    """What `snr_db` was predicted to be before it was built; None without a prediction."""


@dataclass(frozen=True)
class Search:
    candidates: tuple[Candidate, ...]
    elapsed_s: float | None = None
    ended_by: str = ""
    first_bad: FirstBadLayer | None = None
    """None where 8 bits hold the goal, or it was not looked for."""

    @property
    def taken(self) -> Candidate | None:
        return next((candidate for candidate in self.candidates if candidate.is_taken), None)


def read_search(bie: JsonObject) -> Search | None:
    """None for a report without one."""
    search = bie.get("search")
    if not search:
        return None
    rows = tuple(_read_candidate(row) for row in search.get("candidates", ()))
    bad = search.get("first_bad")
    first_bad = FirstBadLayer.from_json(bad) if bad else None
    return Search(rows, search.get("elapsed_s"), search.get("ended_by", ""), first_bad)


def _read_candidate(row: JsonObject) -> Candidate:
    names = Candidate.__dataclass_fields__.keys() - {"steps"}
    return Candidate(**{k: row[k] for k in names if k in row}, steps=tuple(row.get("steps", ())))


def quality_by(candidate: Candidate, measure: Measure) -> float | None:
    """Returns a number that is higher for a better candidate: dB, or the negative loss of the task in percent; None if
    it was not measured."""
    return candidate.snr_db if measure == "snr" else _negate(candidate.drop_percent)


def measures_of(candidates: Sequence[Candidate], goal_kind: GoalKind | None = None) -> tuple[Measure, ...]:
    """Returns what at least two candidates can be compared by, that of the goal first.

    Args:
        goal_kind: of the conversion; None without a goal.
    """
    order: tuple[Measure, ...] = ("task", "snr") if goal_kind == "drop" else ("snr", "task")
    return tuple(one for one in order if sum(quality_by(each, one) is not None for each in candidates) > 1)


def pareto(candidates: Sequence[Candidate], measure: Measure = "snr") -> tuple[Candidate, ...]:
    """Those that no other beats: none is at least as good in quality, latency and size and better in one."""
    known = [c for c in candidates if quality_by(c, measure) is not None]
    return tuple(c for c in known if not any(_beats(other, c, measure) for other in known))


def _beats(one: Candidate, other: Candidate, measure: Measure) -> bool:
    pairs = [
        (first, second)
        for first, second in (
            (quality_by(one, measure), quality_by(other, measure)),
            (_negate(one.latency_ms), _negate(other.latency_ms)),
            (_negate(one.size_bytes), _negate(other.size_bytes)),
        )
        if first is not None and second is not None
    ]
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _negate(value: float | None) -> float | None:
    return None if value is None else -value


def difference(value: Number | None, base: Number | None) -> Number | None:
    """None if one of them is not known."""
    return None if value is None or base is None else value - base


def goal_patch(goal: str) -> JsonObject:
    """Options that make a conversion aim at this goal."""
    return {"quantization": {"goal": goal, **dict.fromkeys(KNOBS)}}


def patch_for(toolchain: ToolchainName, candidate: Candidate) -> JsonObject:
    """Options that make this candidate: the vendor's arguments, or its steps; empty where the report has neither."""
    if toolchain is ToolchainName.KNERON:
        return {"kneron": dict(candidate.options)} if candidate.options else {}
    if not candidate.steps:
        return {}
    return {"quantization": {**goal_patch(NO_GOAL)["quantization"], "steps": list(candidate.steps)}}
