"""The candidates of a search and their results: the report's "search"."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

from app.conversion.toolchains.base import SNR_DB_MIN
from app.conversion.toolchains.host.search.ranges import UNIT_METHOD, WIDE_METHOD
from app.conversion.toolchains.host.search.score import FLOOR_DB, Score
from app.kit.text.json_values import JsonObject

WORTH_DB = 1.0
"""While no candidate reaches the goal, moving more tensors to 16 bits has to gain at least this much, in dB."""
CUT_DB, REWRITTEN_DB = 1.5, 3.0
"""Ranges that cut extremes, and rewritten models, gain less on other scenes than on the given pictures. A candidate
without them that reaches the goal is better unless they gain at least this much, in dB. Below the vendor's 20 dB every
gain counts."""
UNEVEN_DB = 10.0
"""The mean counts for at most this much more than the lowest picture, in dB: as far as the goal is above the floor.
Up to the vendor's 20 dB the mean alone counts."""
ALIKE_DB = 1.0
"""Candidates at the same cost whose ranks differ by less than this, in dB, are alike but for a single picture: of these
the one with the higher mean is better."""
SAME_DROP = 0.2
"""Losses of the task that differ by no more than this, in percent, are the same."""
LARGER_DB = 0.5
"""What smoothing and splitting have to gain in any case, in dB, since they may add nodes or channels."""
Rewrite = Literal["equalization", "smoothing", "channel_splitting"]
Rewrites = tuple[Rewrite, ...]
REWRITE_NAMES: dict[Rewrite, str] = {
    "equalization": "equalized",
    "smoothing": "smoothed",
    "channel_splitting": "wide channels split",
}
BelowGoal = Literal["below_goal", "near_goal", "below_floor", "below_goal_altered", "below_goal_unseen"]
VerdictCode = Literal["taken", "dearer", "worse"] | BelowGoal


@dataclass(frozen=True)
class Choice:
    """A point of the search space.

    Args:
        method: How ranges are chosen, of every activation that `methods` does not name.
        methods: By activation.
        wide: Activations in 16 bits.
        wide_weights: Weights in 16 bits.
        exact: Activations and weights that stay in float.
        has_headroom: Ranges in 16 bits are wider than what was seen.
        rewrites: How the float model was rewritten before, in this order; it computes the same.
        tail: Activations and weights of the last layers, which stay in float like the post-processing after them.
        is_rounded: Weights in 8 bits are rounded by second order, not to nearest.
        is_corrected: Biases take back what rounding does to the means.
        is_float: Nothing is quantized, and nothing else holds.
    """

    method: str
    methods: tuple[tuple[str, str], ...] = ()
    wide: frozenset[str] = frozenset()
    wide_weights: frozenset[str] = frozenset()
    rewrites: Rewrites = ()
    tail: frozenset[str] = frozenset()
    is_rounded: bool = False
    is_corrected: bool = False
    is_float: bool = False
    exact: frozenset[str] = frozenset()
    has_headroom: bool = True

    @property
    def wide_tensors(self) -> frozenset[str]:
        """Activations and weights that are not in 8 bits."""
        return self.wide | self.wide_weights | self.tail | self.exact

    @property
    def tensors_16(self) -> int:
        """Number of tensors that are not in 8 bits."""
        return len(self.wide) + len(self.wide_weights) + len(self.tail) + len(self.exact)

    @property
    def slack_db(self) -> float:
        """What its rewrites have to gain in any case."""
        return LARGER_DB * len({"smoothing", "channel_splitting"} & {*self.rewrites})

    @property
    def operators(self) -> Choice:
        """What the latency depends on: choices that differ only in ranges and in values of weights run the same
        operators."""
        return replace(self, method="", methods=(), is_rounded=False, is_corrected=False, has_headroom=True)

    @property
    def in_8_bits(self) -> Choice:
        none = frozenset[str]()
        return replace(self, wide=none, wide_weights=none, tail=none, exact=none, has_headroom=True)

    @property
    def unit_methods(self) -> tuple[tuple[str, str], ...]:
        """Those of `methods` that ignore what was seen."""
        return tuple(one for one in self.methods if one[1] == UNIT_METHOD)

    @property
    def has_own_ranges(self) -> bool:
        """Whether ranges of single activations follow from what was seen of them."""
        return len(self.methods) > len(self.unit_methods)

    @property
    def name(self) -> str:
        if self.is_float:
            return "float"
        text = f"int8 {self.method}"
        if self.unit_methods:
            text += f", {_format_count(len(self.unit_methods), 'range')} from 0 to 1"
        if self.has_own_ranges:
            text += f", {len(self.methods) - len(self.unit_methods)} ranges of their own"
        text += "".join(f", {REWRITE_NAMES[kind]}" for kind in self.rewrites)
        text += ", weights rounded by second order" * self.is_rounded
        text += ", biases corrected" * self.is_corrected
        if self.tail:
            text += f", {_format_count(len(self.tail), 'tensor')} of the last layers in float"
        if self.wide or self.wide_weights:
            parts = [_format_count(len(self.wide), "activation"), _format_count(len(self.wide_weights), "weight")]
            text += f", {' and '.join(filter(None, parts))} in int16"
            text += ", without headroom" * (not self.has_headroom)
        if self.exact:
            text += f", {_format_count(len(self.exact), 'tensor')} in float"
        return text

    def steps(self) -> list[JsonObject]:
        """Returns the choice as steps, which `recipe.choice_of` reads."""
        if self.is_float:
            return [{"kind": "float", "method": "", "tensors": []}]
        made: list[JsonObject] = [{"kind": "range", "method": self.method, "tensors": []}]
        for method in sorted({method for _, method in self.methods}):
            tensors = [tensor for tensor, own in self.methods if own == method]
            made.append({"kind": "range", "method": method, "tensors": tensors})
        kinds = [*self.rewrites, *["weight_rounding"] * self.is_rounded, *["bias_correction"] * self.is_corrected]
        made += [{"kind": kind, "method": "", "tensors": []} for kind in kinds]
        if self.tail:
            made.append({"kind": "boundary", "method": "", "tensors": sorted(self.tail)})
        if self.wide or self.wide_weights:
            method = "" if self.has_headroom else WIDE_METHOD
            made.append({"kind": "int16", "method": method, "tensors": sorted(self.wide | self.wide_weights)})
        if self.exact:
            made.append({"kind": "float", "method": "", "tensors": sorted(self.exact)})
        return made


IN_FLOAT = Choice("minmax", is_float=True)


@dataclass
class TriedCandidate:
    """A candidate that was built and judged."""

    id: int
    choice: Choice
    score: Score
    is_good: bool
    """True if it reaches the goal."""
    holds_as_given: bool
    """True if it reaches the goal on the pictures as given; altered ones may miss it."""
    tensors: int
    """Number of quantized activations and weights, of which some are in 16 bits."""
    size_bytes: int | None = None
    latency_ms: float | None = None
    altered_db: float | None = None
    """Lower bound of the SNR of altered pictures; None if none was judged."""
    sure_db: float = -inf
    """Lower bound of the SNR, the lower of those for pictures as given and for altered ones."""
    expected_db: float | None = None
    """SNR that was predicted before it was built."""
    misses_unseen: bool = False
    """True if it reaches the goal on the pictures that choose, and misses it on those that report."""

    @property
    def rank_db(self) -> float:
        """SNR that the candidate is sure of, less what its ranges and rewrites have to gain."""
        cuts = self.choice.method != "minmax" or self.choice.has_own_ranges
        slack_db = CUT_DB * cuts + REWRITTEN_DB * bool(self.choice.rewrites)
        return self.score.assured_db - max(slack_db * (self.score.mean_db >= SNR_DB_MIN), self.choice.slack_db)

    @property
    def order(self) -> tuple[int, float]:
        """Sort key: the cheaper and then the better come first."""
        uneven_db = self.score.assured_db - max(self.score.floor_db + UNEVEN_DB, SNR_DB_MIN)
        return self.choice.tensors_16, max(0.0, uneven_db) - self.rank_db

    @property
    def summary(self) -> str:
        """A line for the log."""
        levels = f"{self.score.mean_db:.2f} dB, lowest {self.score.min_db:.2f} dB" if self.score.values else "no SNR"
        text = f"{self.choice.name}: {levels}"
        text += f", {self.expected_db:.2f} dB expected" if self.expected_db is not None else ""
        text += f", task loss {drop:.2f} %" if (drop := self.score.drop_percent) is not None else ""
        text += f", altered pictures {self.altered_db:.2f} dB" if self.altered_db is not None else ""
        return text if self.score.is_whole else f"{text}, given up after {len(self.score.values)} pictures"

    @property
    def int8_share(self) -> float:
        """Share of the tensors in 8 bits, 0..1."""
        return 0.0 if self.choice.is_float else round(1 - self.choice.tensors_16 / max(1, self.tensors), 4)

    def to_json(self, verdict: VerdictCode) -> JsonObject:
        drop = self.score.drop_percent
        return {
            "id": self.id,
            "name": self.choice.name,
            "steps": self.choice.steps(),
            "snr_db": round(self.score.mean_db, 2) if self.score.values else None,
            "snr_min_db": round(self.score.min_db, 2) if self.score.values else None,
            "int8_share": self.int8_share,
            "altered_db": None if self.altered_db is None else round(self.altered_db, 2),
            "expected_db": None if self.expected_db is None else round(self.expected_db, 2),
            "pictures": len(self.score.values),
            "tensors_16": self.choice.tensors_16,
            "size_bytes": self.size_bytes,
            "latency_ms": self.latency_ms,
            "drop_percent": None if drop is None else round(drop, 2),
            "is_taken": verdict == "taken",
            "is_measured": True,
            "verdict_code": verdict,
        }


@dataclass
class Trail:
    """All candidates in the order in which they were tried.

    Args:
        is_by_task: the goal is one of the task.
        goal_db: the SNR of the goal, if it has one.
    """

    candidates: list[TriedCandidate] = field(default_factory=list)
    is_by_task: bool = False
    goal_db: float | None = None

    def add(self, candidate: TriedCandidate) -> None:
        """Append a candidate. All that run the same operators have the lowest latency measured with any of them, for
        what is above it is noise."""
        self.candidates.append(candidate)
        same = [one for one in self.candidates if one.choice.operators == candidate.choice.operators]
        lowest = min((one.latency_ms for one in same if one.latency_ms is not None), default=None)
        for one in same:
            one.latency_ms = lowest

    @property
    def best(self) -> TriedCandidate:
        """Returns the cheapest candidate that reaches the goal; if none does, the cheapest with the least loss of the
        task, if that is the goal and known, or else near the highest SNR on all pictures."""
        whole = [one for one in self.candidates if one.score.is_whole]
        good = [one for one in whole if one.is_good]
        if good:
            tensors_16, least = min(one.order for one in good)
            alike = [one for one in good if one.choice.tensors_16 == tensors_16 and one.order[1] <= least + ALIKE_DB]
            return max(_keep_task(alike), key=lambda one: one.rank_db)
        drops = {one.id: drop for one in whole if (drop := one.score.drop_percent) is not None}
        if self.is_by_task and drops:
            least = min(drops.values())
            return min((one for one in whole if drops.get(one.id) == least), key=lambda one: one.order)
        highest_db = max(one.score.mean_db for one in whole)
        return min((one for one in whole if one.score.mean_db >= highest_db - WORTH_DB), key=lambda one: one.order)

    def to_json(self) -> list[JsonObject]:
        taken = self.best
        return [one.to_json(_choose_verdict(one, taken, self.goal_db)) for one in self.candidates]


def _keep_task(alike: list[TriedCandidate]) -> list[TriedCandidate]:
    """Returns those that lose no more of the task than the best of them; all if that of one is not known."""
    drops = [one.score.drop_percent for one in alike]
    known = [drop for drop in drops if drop is not None]
    if len(known) < len(alike):
        return alike
    return [one for one, drop in zip(alike, known, strict=True) if drop <= min(known) + SAME_DROP]


def _choose_verdict(one: TriedCandidate, taken: TriedCandidate, goal_db: float | None) -> VerdictCode:
    if one is taken:
        return "taken"
    if one.misses_unseen:
        return "below_goal_unseen"
    if not one.is_good:
        return _find_shortfall(one, goal_db) if taken.is_good else "worse"
    return "dearer" if one.choice.tensors_16 > taken.choice.tensors_16 else "worse"


def _find_shortfall(one: TriedCandidate, goal_db: float | None) -> BelowGoal:
    if one.holds_as_given:
        return "below_goal_altered"
    if goal_db is None or one.score.mean_db < goal_db:
        return "below_goal"
    return "below_floor" if one.score.floor_db < FLOOR_DB else "near_goal"


def _format_count(count: int, noun: str) -> str:
    """Returns the count with its noun; empty for none."""
    return f"{count} {noun}{'s' * (count > 1)}" if count else ""
