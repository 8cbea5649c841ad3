"""The search itself, in the order of cost: ranges for all activations by one method, channels equalized, weights
rounded by second order, the best range for each activation, biases corrected, and 16 bits for as few tensors as hold
the goal. Each step is kept only where it was measured better on pictures that set none of its ranges; the first
candidate that holds the goal ends it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from app.conversion.errors import UnsupportedOperator
from app.conversion.goals import DEFAULT_BUDGET_S, Goal
from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.inputs import Samples
from app.conversion.toolchains.host.quantizer import QuantizationPlan
from app.conversion.toolchains.host.search import mixed_precision, sensitivity
from app.conversion.toolchains.host.search.acceptance import ALTERED_SLACK_DB, MARGIN_DB, assured_db, holds
from app.conversion.toolchains.host.search.basis import Basis, basis_of
from app.conversion.toolchains.host.search.bias_correction import Shift, corrections, measured_shifts
from app.conversion.toolchains.host.search.budget import Budget
from app.conversion.toolchains.host.search.candidates import IN_FLOAT, Choice, Trail, TriedCandidate
from app.conversion.toolchains.host.search.equalization import equalized
from app.conversion.toolchains.host.search.judge import Judge
from app.conversion.toolchains.host.search.ranges import METHODS
from app.conversion.toolchains.host.search.report import SearchOutcome
from app.conversion.toolchains.host.search.sensitivity import Sensitivity
from app.conversion.toolchains.host.search.split import split_of
from app.conversion.toolchains.host.search.unlikeness import looks_of
from app.conversion.toolchains.host.search.weight_integers import second_order
from app.kit.sandbox.errors import StageFailed

FIRST_METHODS = METHODS[:4]
"""Tried for all activations at once, first the one that a plain conversion takes; the others only for single ones."""
SENSITIVITY_PICTURES = 4
SENSITIVITY_SHARE, SEARCH_SHARE = 0.6, 0.9
"""Of the budget, at which each part of the search ends."""

TIMES, TIMES_OF_LARGE, LARGE_BYTES, SECONDS_LEAST = 14, 4, 50 << 20, 30.0
"""Of what calibrating and judging the first candidate takes, which is about 0.4 of a plain conversion: so long a search
goes on for a model up to and above LARGE_BYTES, and at least so many seconds."""
SLOWER = "int8 is slower than float on this machine, and the fastest is asked for: the model stays in float"

Step = Callable[[float, str], None]
"""Share of the search that is done (0..1), and what is being done."""


@dataclass(frozen=True)
class SearchResult:
    model: Any
    """The quantized model (onnx.ModelProto)."""
    basis: Basis
    """What it was made of."""
    plan: QuantizationPlan
    ranges: dict[str, Range]
    method: str
    """Of most ranges."""
    pictures: int
    """That set the ranges."""
    warnings: list[str]
    goal: dict[str, Any]
    search: dict[str, Any]
    judgement: dict[str, Any]
    unseen: tuple[int, ...]
    """Places of the samples that it is reported on where they set no range of the file that is handed out."""


def search(
    model: Any,
    plan: QuantizationPlan,
    samples: Samples,
    options: HostQuantization,
    goal: Goal,
    *,
    threads: int,
    meter_of: Callable[[], Any | None],
    step: Step,
    reporting: Sequence[int] = (),
) -> SearchResult:
    """Find the cheapest quantization that holds the goal.

    Args:
        model: onnx.ModelProto, float.
        plan: what would be quantized if all of it went well.
        options: what is fixed beforehand; the search varies the rest.
        goal: the quality to reach, and the seconds it may take.
        threads: of onnxruntime.
        meter_of: makes a meter of the task for a candidate; None: the task is not measured.
        step: called with the share that is done, 0..1, and what is being done.
        reporting: places of the samples that neither calibrate nor choose; the result is reported on them.

    Raises:
        NotFinite: An input or an output of the float model holds a NaN or an infinity.
        NothingToQuantize: As far as its tensors are finite.
        StageFailed: onnxruntime's quantizer cannot make a model.
    """
    return _Search(model, plan, samples, options, goal, threads, meter_of, step, reporting).run()


class _Search:
    def __init__(
        self,
        model: Any,
        plan: QuantizationPlan,
        samples: Samples,
        options: HostQuantization,
        goal: Goal,
        threads: int,
        meter_of: Callable[[], Any | None],
        step: Step,
        reporting: Sequence[int],
    ) -> None:
        self.samples, self.options, self.goal = samples, options, goal
        self.threads, self.step = threads, step
        self.budget = Budget(options.budget_s)
        self.split = split_of(looks_of(samples), reporting)
        self.given = self._basis_of(model, plan)
        self.equalized: Basis | None = None
        self.judge = Judge(model, samples, self.split, threads=threads, meter_of=meter_of)
        self.trail = Trail()
        self.rows: list[Sensitivity] = []
        self._rounded: dict[tuple[bool, tuple[int, ...]], Basis] = {}
        self._shifts: dict[tuple[Choice, tuple[int, ...]], list[Shift]] = {}

    def run(self) -> SearchResult:
        for choice in self._choices():
            self._try(choice)
            if len(self.trail.candidates) == 1 and self.options.budget_s == DEFAULT_BUDGET_S:
                self._limit_cost()
            if self.goal.threshold is not None and self.trail.best.is_good:
                break
            if not self.budget.allows(SEARCH_SHARE):
                break
        return self._result(self.trail.best)

    def _limit_cost(self) -> None:
        """Where nobody has named a budget, the search costs a small multiple of a plain conversion."""
        times = TIMES_OF_LARGE if self.given.model.ByteSize() > LARGE_BYTES else TIMES
        self.budget.limit(max(SECONDS_LEAST, times * self.budget.elapsed_s))

    def _result(self, taken: TriedCandidate) -> SearchResult:
        reported, basis = taken.score, self._basis(taken.choice, self.split.final)
        if self.split.report is not None:
            reported = self.judge.judge(self._build(taken.choice), [self.split.report]).score
        ended_by = "budget" if not self.budget.allows(SEARCH_SHARE) else "exhausted"
        outcome = SearchOutcome(
            self.goal,
            self.budget.seconds,
            self.budget.elapsed_s,
            self.trail,
            taken,
            self.rows,
            self.split,
            reported,
            bool(reported.values) and holds(self.goal, reported),
            "reached" if taken.is_good else ended_by,
            self.judge.float_latency_ms,
        )
        return SearchResult(
            self._built(taken.choice, self.split.final),
            basis,
            replace(basis.plan, nodes=(), tensors=(), problem=SLOWER) if taken.choice.is_float else basis.plan,
            basis.ranges(taken.choice, self.split.final),
            taken.choice.method,
            sum(basis.statistics.pictures[part] for part in self.split.final),
            list(basis.template.warnings),
            outcome.goal_report(),
            outcome.search_report(),
            outcome.judgement(),
            self.split.places(self.split.report),
        )

    # --- what is tried ----------------------------------------------------------------------------------
    def _choices(self) -> Iterator[Choice]:
        """Dearer and dearer; whoever has enough stops asking."""
        for method in FIRST_METHODS:
            yield Choice(method)
        if self.goal.kind == "fastest":
            if self.judge.is_slower_than_float(self._built(self._best_in_8_bits, self.split.final)):
                yield IN_FLOAT
            return
        yield from self._equalized()
        yield replace(self._best_in_8_bits, is_rounded=True)
        yield from self._own_ranges()
        yield replace(self._best_in_8_bits, is_corrected=True)
        if self.goal.threshold is not None:
            yield from self._mixed()

    @property
    def _first_parts(self) -> tuple[int, ...]:
        """Whose pictures calibrate what is judged first."""
        return self.split.calibrating(self.split.choose[0])

    @property
    def _best_in_8_bits(self) -> Choice:
        """On altered pictures, too: a range that cuts extremes costs most where it has not seen them."""
        narrow = [one for one in self.trail.candidates if one.choice.tensors_16 == 0]
        return max(narrow, key=lambda one: one.sure_db).choice

    def _equalized(self) -> Iterator[Choice]:
        best = self._best_in_8_bits
        model, count = equalized(self.given.model, lambda tensor: self.given.limits(tensor, self.split.final))
        if count == 0:
            return
        self.equalized = self._basis_of(model, self.given.plan, are_known=True)
        for method in dict.fromkeys((best.method, "mse")):
            yield Choice(method, is_equalized=True)

    def _own_ranges(self) -> Iterator[Choice]:
        base = self._best_in_8_bits
        self.rows = self._sensitivities(base)
        methods = tuple((r.tensor, r.method) for r in self.rows if r.method not in ("", base.method))
        if methods:
            yield replace(base, methods=methods)

    def _mixed(self) -> Iterator[Choice]:
        """The fewest tensors in 16 bits, in the order of what they save."""
        base = self._best_in_8_bits
        order = [*mixed_precision.ordered(self.rows, with_own_ranges=bool(base.methods)), *self._not_measured(base)]
        if not self.rows:  # it cannot be told which tensors need them
            yield _widened(base, order)
            return

        def holds_with(count: int) -> bool:
            return self.budget.allows(SEARCH_SHARE) and self._try(_widened(base, order[:count])).is_good

        mixed_precision.fewest(len(order), holds_with)

    def _not_measured(self, base: Choice) -> list[Sensitivity]:
        """Tensors that there was no time for: the last to get 16 bits."""
        known, template = (
            {row.tensor for row in self.rows},
            self._basis(base, self.split.calibrating(self.split.choose[0])).template,
        )
        names = [(activation.name, False) for activation in template.activations]
        names += [(weight.name, True) for weight in template.weights]
        nothing = np.zeros((0, 0))
        left = [(name, is_weight) for name, is_weight in names if name not in known]
        return [Sensitivity(name, "", is_weight, "", nothing, nothing) for name, is_weight in left]

    def _sensitivities(self, base: Choice) -> list[Sensitivity]:
        """Of each tensor alone in 8 bits, with the range that suits it best; none where it cannot be measured."""
        part = self.split.choose[0]
        parts = self._first_parts
        basis = self._basis(base, parts)
        methods = (base.method, *(method for method in METHODS if method != base.method))
        ranges = {method: basis.ranges(Choice(method), parts) for method in methods}
        lowest = next(one.score.lowest_picture for one in self.trail.candidates if one.choice == base)
        pictures = self.judge.probes(part, SENSITIVITY_PICTURES, lowest)
        goal_db = self.goal.threshold if self.goal.kind == "snr" and self.goal.threshold else 20.0
        self._tell(f"measuring what each of {len(basis.template.activations)} activations costs alone")
        try:
            return sensitivity.measure(
                basis.template,
                ranges,
                pictures,
                self.judge.names,
                goal_db,
                threads=self.threads,
                has_time=lambda: self.budget.allows(SENSITIVITY_SHARE),
            )
        except (UnsupportedOperator, StageFailed) as error:
            print(f"sensitivity cannot be measured: {error.message}")
            return []

    # --- candidates -------------------------------------------------------------------------------------
    def _try(self, choice: Choice) -> TriedCandidate:
        judged = self.judge.judge(self._build(choice), self.split.choose)
        template = self._basis(choice, self._first_parts).template
        is_near = holds(self.goal, judged.score, MARGIN_DB)
        altered_db = self._altered_db(choice) if is_near or choice.tensors_16 == 0 else None
        candidate = TriedCandidate(
            len(self.trail.candidates),
            choice,
            judged.score,
            is_near and (altered_db is None or altered_db >= (self.goal.threshold or 0.0) - ALTERED_SLACK_DB),
            is_near,
            len(template.activations) + len(template.weights),
            judged.size_bytes,
            judged.latency_ms,
            altered_db,
            min(assured_db(judged.score), inf if altered_db is None else altered_db),
        )
        self.trail.candidates.append(candidate)
        mean, lowest = candidate.score.mean_db, candidate.score.min_db
        at = f"after {self.budget.elapsed_s:.1f} s"
        at = at if altered_db is None else f"altered pictures {altered_db:.2f} dB, {at}"
        print(f"candidate {candidate.id}: {choice.name}: {mean:.2f} dB, lowest {lowest:.2f} dB, {at}")
        self._tell(f"tried {len(self.trail.candidates)}")
        return candidate

    def _altered_db(self, choice: Choice) -> float | None:
        """What is sure of altered pictures, of the alteration that does worst. None where SNR is not the goal, or the
        inputs are no pictures."""
        if self.goal.kind != "snr" or self.goal.threshold is None:
            return None
        scores = self.judge.judge_altered(self._build(choice), self.split.choose)
        return min((assured_db(score) for score in scores), default=None)

    def _build(self, choice: Choice) -> Callable[[int], Any]:
        return lambda part: self._built(choice, self.split.calibrating(part))

    def _built(self, choice: Choice, parts: Sequence[int]) -> Any:
        basis = self._basis(choice, parts)
        if choice.is_float:
            return copy.deepcopy(basis.model)
        precision = basis.precision(choice, parts)
        if choice.is_corrected:
            shifts = corrections(self._shifts_of(choice.in_8_bits, tuple(parts)), choice.wide, choice.wide_weights)
            precision = replace(precision, biases=shifts)
        return basis.template.build(precision)

    def _shifts_of(self, choice: Choice, parts: tuple[int, ...]) -> list[Shift]:
        if (choice, parts) not in self._shifts:
            basis, pictures = self._basis(choice, parts), self.judge.examples(parts)
            ranges = basis.ranges(choice, parts)
            self._shifts[choice, parts] = measured_shifts(basis.template, ranges, pictures, self.threads)
        return self._shifts[choice, parts]

    def _basis(self, choice: Choice, parts: Sequence[int]) -> Basis:
        """Args: parts: Whose pictures set the ranges; those that judge round no weights where others can."""
        basis = self.equalized if choice.is_equalized and self.equalized is not None else self.given
        if not choice.is_rounded:
            return basis
        key = choice.is_equalized, tuple(part for part in parts if part not in self.split.choose) or tuple(parts)
        if key not in self._rounded:
            integers = second_order(basis.template, self.judge.examples(key[1]), self.threads)
            self._rounded[key] = replace(basis, template=basis.template.with_weights(integers))
        return self._rounded[key]

    def _basis_of(self, model: Any, plan: QuantizationPlan, *, are_known: bool = False) -> Basis:
        def step(done: int, of: int) -> None:
            self.step(0.0, f"calibrating {done}/{of}")

        return basis_of(
            model, plan, self.samples, self.split, self.options, threads=self.threads, step=step, are_known=are_known
        )

    def _tell(self, text: str) -> None:
        self.step(min(1.0, self.budget.elapsed_s / self.budget.seconds), text)


def _widened(base: Choice, rows: Sequence[Sensitivity]) -> Choice:
    wide = frozenset(row.tensor for row in rows if not row.is_weight)
    return replace(base, wide=wide, wide_weights=frozenset(row.tensor for row in rows if row.is_weight))


__all__ = ["SearchResult", "search"]
