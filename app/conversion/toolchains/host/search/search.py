"""The search itself: candidates in the order of their cost, each a real file judged on pictures it was not calibrated
on, until one holds the goal, the budget is spent or nothing is left to try."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from app.conversion.errors import UnsupportedOperator
from app.conversion.goals import Goal, parse_goal
from app.conversion.options import HostQuantization
from app.conversion.toolchains.host import quality
from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.inputs import SampleArrays, Samples
from app.conversion.toolchains.host.quantizer import QuantizationPlan, plan
from app.conversion.toolchains.host.runtime import open_session
from app.conversion.toolchains.host.search import mixed_precision, sensitivity
from app.conversion.toolchains.host.search.budget import Budget
from app.conversion.toolchains.host.search.candidates import Candidate, Recipe
from app.conversion.toolchains.host.search.judge import Judge, Scores, joined, targets_of
from app.conversion.toolchains.host.search.judgement import FLOOR_DB
from app.conversion.toolchains.host.search.kept_samples import KeptSamples
from app.conversion.toolchains.host.search.ranges import METHODS, range_of
from app.conversion.toolchains.host.search.sensitivity import Sensitivity
from app.conversion.toolchains.host.search.split import Split, split_of
from app.conversion.toolchains.host.search.statistics import Step, collect
from app.conversion.toolchains.host.search.template import Precision, Template
from app.kit.sandbox.errors import StageFailed

PROBED = 3
"""Pictures that sensitivity is measured on."""
SPREAD_DB_MAX = 3.0
"""How much above the goal a mean must be at most because its pictures differ."""
UNSEEN_MARGIN_DB = 0.5
"""Other pictures report than have chosen."""


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    goal: Goal
    model: Any
    plan: QuantizationPlan
    candidates: tuple[Candidate, ...]
    taken: Candidate
    rows: tuple[Sensitivity, ...]
    report: Scores
    task: str
    split: Split
    ended_by: str
    elapsed_s: float
    warnings: tuple[str, ...]
    samples: int
    float_latency_ms: float | None
    weights_alone: tuple[str, ...]


class Search:
    """One model, one goal.

    Args:
        step: Told how many pictures are done while statistics are collected.
    """

    def __init__(self, model: Any, options: HostQuantization, samples: Samples, threads: int, step: Step) -> None:
        self.goal = parse_goal(options.goal)
        self._options, self._threads = options, threads
        self._budget = Budget(options.budget_s)
        self._split = split_of(len(samples))
        self._model = model
        self._pictures: dict[int, list[SampleArrays]] = {part: [] for part in range(self._split.parts)}
        first = plan(model, options)
        keeping = KeptSamples(samples, self._split, self._pictures)
        self._statistics = collect(model, first.tensors, keeping, self._split.part_of, threads=threads, step=step)
        self.plan = _without(model, first, options, self._statistics.not_finite)
        self._template = Template(model, self.plan, self._tensor_ranges(), options)
        self._judge = Judge(model, targets_of(model), threads)
        self._candidates: list[Candidate] = []
        self._rows: list[Sensitivity] = []

    def run(self, say: Callable[[str], None]) -> Found:
        """Try candidates; each is told to `say`."""
        self._say = say
        holds = any(self._holds(candidate) for candidate in self._tried())
        taken = self._chosen()
        for candidate in self._candidates:
            candidate.verdict_code = self._code(candidate, taken)
        taken.is_taken, taken.verdict_code = True, "taken"
        ended_by = "reached" if holds else "budget" if self._budget.is_over else "exhausted"
        model = self._build(taken.recipe, self._split.final)
        report = taken.scores
        if self._split.report is not None:
            report = self._judge.scores(model, self._pictures[self._split.report])
        return Found(
            self.goal, model, self.plan, tuple(self._candidates), taken, tuple(self._rows), report, self._judge.task,
            self._split, ended_by, self._budget.elapsed_s, self._warnings(), self._statistics.pictures,
            self.float_latency_ms, self._weak_weights(),
        )  # fmt: skip

    @cached_property
    def float_latency_ms(self) -> float | None:
        return self._latency(self._model)

    def _tried(self) -> Iterator[Candidate]:
        """Candidates, dearer and dearer; whoever has enough stops asking."""
        yield self._measure(Recipe("int8, min-max"))
        for method in METHODS[1:3]:
            if self._budget.is_over:
                return
            yield self._measure(Recipe(f"int8, {method}", method))
        if self._budget.is_over:
            return
        self._rows = self._sensitivities()
        methods = {row.tensor: row.method for row in self._rows if row.method not in ("", "minmax")}
        base = max(self._candidates, key=_value).recipe
        if methods:
            chosen = self._measure(Recipe("int8, best range per tensor", "minmax", methods))
            yield chosen
            base = max(self._candidates, key=_value).recipe
        if self.goal.kind in ("snr", "drop"):
            yield from self._mixed(base)

    def _mixed(self, base: Recipe) -> Iterator[Candidate]:
        order = mixed_precision.ordered(self._rows)
        if not order:  # it cannot be told which tensors need them
            yield self._measure(self._all_in_16_bits(base))
            return
        tried: dict[frozenset[str], Candidate] = {}

        def with_16_bits(rows: Sequence[Sensitivity]) -> bool:
            names = frozenset(row.tensor for row in rows)
            if names in tried or self._budget.is_over:
                return names in tried and self._holds(tried[names])
            tried[names] = self._measure(_widened(base, rows))
            return self._holds(tried[names])

        count = mixed_precision.fewest(len(order), lambda k: with_16_bits(order[:k]))
        if count is not None:
            mixed_precision.pruned(order[:count], with_16_bits)
        yield from tried.values()

    def _all_in_16_bits(self, base: Recipe) -> Recipe:
        wide = frozenset(activation.name for activation in self._template.activations)
        weights = frozenset(weight.name for weight in self._template.weights)
        return Recipe("all tensors in 16 bits", base.method, base.methods, wide, weights)

    def _sensitivities(self) -> list[Sensitivity]:
        part = self._split.choose[0]
        parts = self._split.calibrating(part)
        ranges = {method: self._ranges(Recipe("", method), parts) for method in METHODS}
        goal_db = self.goal.threshold if self.goal.kind == "snr" and self.goal.threshold else 20.0
        try:
            rows = self._measured_alone(part, ranges, goal_db)
        except (UnsupportedOperator, StageFailed) as error:
            self._say(f"sensitivity cannot be measured: {error.message}")
            return []
        self._say(f"sensitivity of {len(rows)} tensors measured, each alone in int8")
        return rows

    def _measured_alone(
        self, part: int, ranges: Mapping[str, Mapping[str, Range]], goal_db: float
    ) -> list[Sensitivity]:
        return sensitivity.measure(
            self._template, ranges, self._pictures[part][:PROBED], self._judge.targets.goal, goal_db, self._threads,
            self._budget,
        )  # fmt: skip

    def _measure(self, recipe: Recipe) -> Candidate:
        parts, model = [], self._build(recipe, self._split.final)
        for part in self._split.choose:
            if self._pictures[part]:
                model = self._build(recipe, self._split.calibrating(part))
                parts.append(self._judge.scores(model, self._pictures[part]))
        total = len(self._template.activations) + len(self._template.weights)
        candidate = Candidate(
            len(self._candidates),
            recipe,
            joined(parts),
            model.ByteSize(),
            self._latency(model),
            1.0 - recipe.tensors_16 / max(total, 1),
        )
        self._candidates.append(candidate)
        mean, latency = candidate.interval.mean, candidate.latency_ms
        snr = "no SNR" if mean is None else f"{mean:.1f} dB on unseen pictures, worst {candidate.scores.lowest_db:.1f}"
        self._say(f"tried {candidate.id}: {recipe.name}: {snr}, {latency} ms, {candidate.size_bytes} bytes")
        return candidate

    def _holds(self, candidate: Candidate) -> bool:
        """Is the goal reached by it, as far as the choosing pictures can tell?"""
        lowest = candidate.scores.lowest_db
        if self.goal.kind == "drop":
            drop = candidate.drop_percent
            return drop is not None and drop <= (self.goal.threshold or 0.0)
        if self.goal.kind != "snr" or lowest is None or lowest < FLOOR_DB:
            return False
        known = candidate.interval
        spread = min(SPREAD_DB_MAX, (known.mean or 0.0) - known.low) if known.low is not None else 0.0
        margin = UNSEEN_MARGIN_DB if self._split.is_disjoint else 0.0
        return (known.mean or 0.0) - spread - margin >= (self.goal.threshold or 0.0)

    def _chosen(self) -> Candidate:
        usable = [c for c in self._candidates if _value(c) >= FLOOR_DB] or self._candidates
        if self.goal.kind == "smallest":
            return min(usable, key=lambda c: (c.size_bytes, -_value(c)))
        if self.goal.kind == "fastest":
            return min(usable, key=lambda c: (c.latency_ms or 0.0, -_value(c)))
        holding = [c for c in self._candidates if self._holds(c)]
        if not holding and self.goal.kind == "snr":  # the mean holds, and more bits would not make the rest sure
            holding = [c for c in self._candidates if _value(c) >= (self.goal.threshold or 0.0) + SPREAD_DB_MAX]
        return min(holding, key=lambda c: c.cost) if holding else max(self._candidates, key=_value)

    def _code(self, candidate: Candidate, taken: Candidate) -> str:
        is_slower = (candidate.latency_ms or 0.0) > (self.float_latency_ms or float("inf"))
        if is_slower and self.goal.kind == "fastest":
            return "slower_than_float"
        if self.goal.kind in ("fastest", "smallest"):
            return "dearer"
        if self._holds(candidate):
            return "dearer"
        return "below_goal" if self._holds(taken) else "worse"

    def _build(self, recipe: Recipe, parts: Sequence[int]) -> Any:
        return self._template.build(Precision(self._ranges(recipe, parts), recipe.wide, recipe.wide_weights))

    def _ranges(self, recipe: Recipe, parts: Sequence[int]) -> Mapping[str, Range]:
        ranges = {}
        for activation in self._template.activations:
            name = activation.name
            method = "minmax" if name in recipe.wide else recipe.methods.get(name, recipe.method)
            known = [
                self._range(tensor, method, tuple(parts)) for tensor in activation.tensors if tensor in self._known
            ]
            ranges[name] = (min((r[0] for r in known), default=0.0), max((r[1] for r in known), default=0.0))
        return ranges

    @cached_property
    def _known(self) -> Mapping[str, Any]:
        return self._statistics.parts

    def _range(self, tensor: str, method: str, parts: tuple[int, ...]) -> Range:
        key = (tensor, method, parts)
        if key not in self._cache:
            self._cache[key] = range_of(self._statistics.of(tensor, parts), method)
        return self._cache[key]

    @cached_property
    def _cache(self) -> dict[tuple[str, str, tuple[int, ...]], Range]:
        return {}

    def _tensor_ranges(self) -> dict[str, Range]:
        return {name: self._range(name, "minmax", self._split.final) for name in self.plan.tensors}

    def _latency(self, model: Any) -> float | None:
        picture = next((pictures[0] for pictures in self._pictures.values() if pictures), None)
        return quality.latency_ms(open_session(model.SerializeToString(), 1), [picture] if picture else [])

    def _warnings(self) -> tuple[str, ...]:
        odd = [f"tensor {n!r} is not finite for sample {s!r} and stays in float" for n, s in self._odd]
        return (*self._template.warnings, *odd)

    @property
    def _odd(self) -> list[tuple[str, str]]:
        return sorted(self._statistics.not_finite.items())[:10]

    def _weak_weights(self) -> tuple[str, ...]:
        weak = [row for row in self._rows if row.is_weight and row.snr_db < (self.goal.threshold or 20.0) + 10.0]
        return tuple(row.layer for row in sorted(weak, key=lambda row: row.snr_db)[:5])


def _without(
    model: Any, first: QuantizationPlan, options: HostQuantization, tensors: Mapping[str, str]
) -> QuantizationPlan:
    """The plan without the nodes around these tensors."""
    if not tensors:
        return first
    odd = [n.name for n in model.graph.node if n.name in first.nodes and tensors.keys() & {*n.input, *n.output}]
    return plan(model, options.model_copy(update={"exclude_nodes": (*options.exclude_nodes, *odd)}))


def _widened(base: Recipe, rows: Sequence[Sensitivity]) -> Recipe:
    wide = frozenset(row.tensor for row in rows if not row.is_weight)
    weights = frozenset(row.tensor for row in rows if row.is_weight)
    name = f"{base.name}, {len(rows)} tensors in 16 bits"
    return Recipe(name, base.method, base.methods, wide, weights)


def _value(candidate: Candidate) -> float:
    mean = candidate.interval.mean
    return -1e9 if mean is None else mean
