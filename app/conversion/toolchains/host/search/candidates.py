"""What was tried, as the report tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.conversion.toolchains.host.search.judge import Scores
from app.conversion.toolchains.host.search.judgement import Interval, interval


@dataclass(frozen=True)
class Recipe:
    """How a file is quantized, whatever its ranges are calibrated on.

    Args:
        method: Of every range that `methods` does not name.
        methods: By activation.
        wide, wide_weights: In 16 bits.
    """

    name: str
    method: str = "minmax"
    methods: Mapping[str, str] = field(default_factory=dict)
    wide: frozenset[str] = frozenset()
    wide_weights: frozenset[str] = frozenset()

    @property
    def tensors_16(self) -> int:
        return len(self.wide) + len(self.wide_weights)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """As the report has them: range first, then what is in 16 bits."""
        steps: list[dict[str, Any]] = [{"kind": "range", "method": self.method, "tensors": []}]
        for method in sorted(set(self.methods.values()) - {self.method}):
            tensors = sorted(name for name, chosen in self.methods.items() if chosen == method)
            steps.append({"kind": "range", "method": method, "tensors": tensors})
        if self.tensors_16:
            steps.append({"kind": "int16", "method": "", "tensors": sorted(self.wide | self.wide_weights)})
        return steps


@dataclass
class Candidate:
    id: int
    recipe: Recipe
    scores: Scores
    size_bytes: int
    latency_ms: float | None
    int8_share: float
    is_taken: bool = False
    verdict_code: str = "below_goal"

    @property
    def interval(self) -> Interval:
        return interval(self.scores.worst)

    @property
    def cost(self) -> tuple[int, float, int]:
        """Cheapest first: tensors beyond 8 bits, then latency, then size."""
        return self.recipe.tensors_16, self.latency_ms or 0.0, self.size_bytes

    def to_dict(self) -> dict[str, Any]:
        mean = self.interval.mean
        lowest = self.scores.lowest_db
        return {
            "id": self.id,
            "name": self.recipe.name,
            "steps": self.recipe.steps,
            "snr_db": rounded(mean),
            "snr_min_db": rounded(lowest),
            "int8_share": round(self.int8_share, 4),
            "tensors_16": self.recipe.tensors_16,
            "size_bytes": self.size_bytes,
            "latency_ms": self.latency_ms,
            "drop_percent": rounded(self.drop_percent),
            "is_taken": self.is_taken,
            "is_measured": True,
            "verdict_code": self.verdict_code,
        }

    @property
    def drop_percent(self) -> float | None:
        agreement = self.scores.agreement
        return 100.0 * (1.0 - float(agreement.mean())) if agreement.size else None


def rounded(value: float | None, digits: int = 2) -> float | None:
    return None if value is None else round(value, digits)


def pareto_front(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those that no other beats in SNR, latency and size at once."""

    def beats(one: Candidate, other: Candidate) -> bool:
        first, second = _figures(one), _figures(other)
        return all(a >= b for a, b in zip(first, second, strict=True)) and first != second

    return [c for c in candidates if not any(beats(other, c) for other in candidates)]


def _figures(candidate: Candidate) -> tuple[float, float, float]:
    mean = candidate.interval.mean
    return (-1e9 if mean is None else mean), -(candidate.latency_ms or 0.0), -float(candidate.size_bytes)
