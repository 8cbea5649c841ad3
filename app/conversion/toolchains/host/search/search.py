"""The search itself, in the order of cost: ranges for all activations, then 16 bits for the most sensitive of them and
of the weights, as few as hold the goal; then ranges of their own for those that hurt most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.conversion.goals import Goal
from app.conversion.options import HostQuantization
from app.conversion.toolchains.host import quality
from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.inputs import Samples
from app.conversion.toolchains.host.quantizer import QuantizationPlan
from app.conversion.toolchains.host.runtime import open_session
from app.conversion.toolchains.host.search.budget import Budget
from app.conversion.toolchains.host.search.candidates import Choice, Trail, TriedCandidate
from app.conversion.toolchains.host.search.interval import interval_of
from app.conversion.toolchains.host.search.judge import Judge, Score
from app.conversion.toolchains.host.search.ranges import METHODS, are_near, range_of
from app.conversion.toolchains.host.search.single import with_one_rounded
from app.conversion.toolchains.host.search.split import SEED, Split, split_of
from app.conversion.toolchains.host.search.statistics import ActivationStatistics, collect
from app.conversion.toolchains.host.search.template import Activation, Precision, Template

SENSITIVE_MOST = 48
"""Activations of which it is measured what they alone cost; the others cost little by what is known of their values."""
SENSITIVITY_PICTURES = 2
"""Of each part."""
OWN_RANGES = 8
"""The most sensitive activations, whose range may be chosen by another method than the others'."""
FLOOR_DB = 10.0
"""No picture may be below it."""
SENSITIVITY_SHARE, SEARCH_SHARE = 0.5, 0.9
"""Of the budget, at which each part of the search ends."""

Step = Callable[[float, str], None]
"""Share of the search that is done (0..1), and what is being done."""


@dataclass(frozen=True)
class SearchResult:
    model: Any
    """The quantized model (onnx.ModelProto)."""
    ranges: dict[str, Range]
    pictures: int
    warnings: list[str]
    goal: dict[str, Any]
    search: dict[str, Any]
    judgement: dict[str, Any]


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
) -> SearchResult:
    """Find the cheapest quantization that holds the goal.

    Raises:
        NotFinite: An input or an output of the float model holds a NaN or an infinity.
        StageFailed: onnxruntime's quantizer cannot make a model.
    """
    return _Search(model, plan, samples, options, goal, threads, meter_of, step).run()


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
    ) -> None:
        self.model, self.samples, self.options, self.goal = model, samples, options, goal
        self.threads, self.meter_of, self.step = threads, meter_of, step
        self.budget = Budget(options.budget_s)
        self.split = split_of(len(samples))
        self.statistics = self._collected(plan)
        self.plan = _without(model, plan, self.statistics.not_finite)
        self.template = Template(model, self.plan, self._minmax(), options)
        self.judge = Judge(model, samples, self.split, threads=threads, meter_of=meter_of)
        self.trail = Trail()
        self.sensitivity: list[tuple[Activation, float]] = []

    def run(self) -> SearchResult:
        for method in METHODS:
            if self.trail.candidates and not self.budget.allows(SENSITIVITY_SHARE):
                break
            self._try(Choice(method))
        if self.goal.kind in ("snr", "drop") and not self.trail.best.is_good:
            self._widen()
        ended_by = "reached" if self.trail.best.is_good else "budget" if self.budget.is_over else "exhausted"
        return self._result(ended_by)

    # --- candidates -------------------------------------------------------------------------------------
    def _try(self, choice: Choice) -> TriedCandidate:
        score = self.judge.score(lambda part: self._built(choice, self.split.calibrating(part)), self.split.choose)
        whole = self._built(choice, self.split.final)
        candidate = TriedCandidate(
            len(self.trail.candidates),
            choice,
            score,
            self._holds(score),
            len(self.template.activations) + len(self.template.weights),
            whole.ByteSize(),
            self._latency_ms(whole),
        )
        self.trail.candidates.append(candidate)
        print(f"candidate {candidate.id}: {choice.name}: {score.mean_db:.2f} dB, lowest {score.min_db:.2f} dB")
        self.step(min(1.0, self.budget.elapsed_s / self.budget.seconds), f"tried {len(self.trail.candidates)}")
        return candidate

    def _holds(self, score: Score) -> bool:
        if self.goal.kind == "snr" and self.goal.threshold is not None:
            return _assured(score) >= self.goal.threshold and score.min_db >= FLOOR_DB
        if self.goal.kind == "drop" and self.goal.threshold is not None:
            return score.drop_percent is not None and score.drop_percent <= self.goal.threshold
        return True

    def _built(self, choice: Choice, parts: Sequence[int]) -> Any:
        ranges = self._ranges(choice, parts)
        return self.template.build(Precision(ranges, choice.wide, choice.wide_weights))

    def _ranges(self, choice: Choice, parts: Sequence[int]) -> dict[str, Range]:
        methods = dict(choice.methods)
        return {
            activation.name: self._range(activation, methods.get(activation.name, choice.method), parts)
            for activation in self.template.activations
        }

    def _range(self, activation: Activation, method: str, parts: Sequence[int]) -> Range:
        ranges = [
            range_of(self.statistics.of(tensor, parts), method)
            for tensor in activation.tensors
            if tensor in self.statistics.parts
        ]
        return min((low for low, _ in ranges), default=0.0), max((high for _, high in ranges), default=0.0)

    def _latency_ms(self, model: Any) -> float | None:
        pictures = self.judge.pictures[:1]
        if not pictures:
            return None
        return quality.latency_ms(open_session(model.SerializeToString(), 1), pictures)

    # --- 16 bits ----------------------------------------------------------------------------------------
    def _widen(self) -> None:
        base = self.trail.best.choice
        self.sensitivity = self._measured_sensitivity(base)
        activations = [activation.name for activation, _ in self.sensitivity]
        weights = self._noisy_weights()
        failed = 0
        for count in _doubling(len(activations) + len(weights)):
            if not self.budget.allows(SEARCH_SHARE):
                return
            if self._try(_wider(base, activations, weights, count)).is_good:
                self._narrow(base, activations, weights, failed, count)
                return
            failed = count
        self._own_ranges(self.trail.best.choice)

    def _narrow(self, base: Choice, activations: Sequence[str], weights: Sequence[str], failed: int, good: int) -> None:
        """Between a count that is too small and one that holds the goal."""
        while good - failed > max(1, good // 8) and self.budget.allows(SEARCH_SHARE):
            middle = (failed + good) // 2
            if self._try(_wider(base, activations, weights, middle)).is_good:
                good = middle
            else:
                failed = middle

    def _own_ranges(self, base: Choice) -> None:
        """Of the activations that stay in 8 bits and hurt most, another method where that is better."""
        choice = base
        narrow = [activation for activation, _ in self.sensitivity if activation.name not in base.wide]
        for activation in narrow[:OWN_RANGES]:
            usual = self._range(activation, choice.method, self.split.final)
            for method in METHODS:
                if not self.budget.allows(SEARCH_SHARE):
                    return
                if are_near(self._range(activation, method, self.split.final), usual):
                    continue
                candidate = self._try(replace(choice, methods=(*choice.methods, (activation.name, method))))
                if candidate is self.trail.best:
                    choice = candidate.choice
                if candidate.is_good:
                    return

    def _measured_sensitivity(self, base: Choice) -> list[tuple[Activation, float]]:
        """dB at the worst output where one activation alone is in 8 bits and all else in float; the lowest first."""
        measured = []
        for place, activation in enumerate(self._by_local_noise(base)[:SENSITIVE_MOST]):
            if not self.budget.allows(SENSITIVITY_SHARE):
                break
            alone = with_one_rounded(self.model, activation, self._range(activation, base.method, self.split.final))
            part = self.split.choose[:1]
            score = self.judge.score(lambda _, alone=alone: alone, part, most=SENSITIVITY_PICTURES)  # type: ignore[misc]
            measured.append((activation, score.mean_db))
            self.step(min(1.0, self.budget.elapsed_s / self.budget.seconds), f"sensitivity of {place + 1} tensors")
        return sorted(measured, key=lambda one: one[1])

    def _by_local_noise(self, base: Choice) -> list[Activation]:
        """Activations by what 8 bits cost at the tensor itself, the most expensive first."""

        def local_snr(activation: Activation) -> float:
            low, high = self._range(activation, base.method, self.split.final)
            statistics = self.statistics.of(activation.name, self.split.final)
            power = statistics.histogram.mean_square
            noise = ((high - low) / 255) ** 2 / 12
            return power / noise if noise > 0 else np.inf

        known = [one for one in self.template.activations if one.name in self.statistics.parts]
        return sorted(known, key=local_snr)

    def _noisy_weights(self) -> list[str]:
        """Weights by their own SNR in 8 bits, the lowest first."""

        def snr(weight: Any) -> float:
            values = self.template.float_value(weight.name)
            noise = float(np.square(values - self.template.dequantized(weight)).sum())
            return float(np.square(values).sum()) / noise if noise > 0 else np.inf

        return [weight.name for weight in sorted(self.template.weights, key=snr)]

    # --- result -----------------------------------------------------------------------------------------
    def _result(self, ended_by: str) -> SearchResult:
        taken = self.trail.best
        model = self._built(taken.choice, self.split.final)
        judgement = self._judgement(taken)
        is_reached = taken.is_good and (self.goal.kind != "snr" or bool(judgement["is_met"]))
        reason = None if is_reached else self._reason(taken, ended_by)
        goal = {
            "text": self.goal.text,
            "kind": self.goal.kind,
            "threshold": self.goal.threshold,
            "budget_s": self.options.budget_s,
            "is_reached": is_reached,
            "reason_code": reason,
            "reason_params": {} if reason is None else {"snr_db": round(taken.score.mean_db, 2)},
        }
        report = {
            "seed": SEED,
            "elapsed_s": round(self.budget.elapsed_s, 1),
            "ended_by": ended_by,
            "candidates": self.trail.to_json(),
            "taken": taken.id,
            "sensitivity": [
                {"tensor": activation.name, "layer": activation.name, "snr_db": round(snr_db, 2)}
                for activation, snr_db in self.sensitivity
            ],
        }
        ranges = self._ranges(taken.choice, self.split.final)
        return SearchResult(
            model, ranges, self.statistics.pictures, list(self.template.warnings), goal, report, judgement
        )

    def _reason(self, taken: TriedCandidate, ended_by: str) -> str:
        if self.goal.kind == "drop" and taken.score.drop_percent is None:
            return "no_task"
        if taken.is_good:
            return "unseen_pictures"
        return "budget" if ended_by == "budget" else "out_of_reach"

    def _judgement(self, taken: TriedCandidate) -> dict[str, Any]:
        split = self.split
        score = taken.score
        if split.report is not None:
            report = split.report
            score = self.judge.score(lambda part: self._built(taken.choice, split.calibrating(part)), [report])
        values = score.values
        low, high = interval_of(values)
        is_met = bool(values) and self._holds(score) if self.goal.kind == "snr" else None
        return {
            "calibrate": split.size(*split.final),
            "choose": split.size(*split.choose),
            "report": split.size(split.report) if split.report is not None else split.size(*split.choose),
            "is_own_set": False,
            "n": len(values),
            "mean_db": _rounded(score.mean_db if values else None),
            "p5_db": _rounded(float(np.percentile(values, 5)) if values else None),
            "min_db": _rounded(score.min_db if values else None),
            "low_db": _rounded(low),
            "high_db": _rounded(high),
            "floor_db": FLOOR_DB,
            "is_met": is_met,
            "task": None,
        }

    def _collected(self, plan: QuantizationPlan) -> ActivationStatistics:
        def step(done: int, of: int) -> None:
            self.step(0.0, f"calibrating {done}/{of}")

        return collect(self.model, plan.tensors, self.samples, self.split.part_of, threads=self.threads, step=step)

    def _minmax(self) -> dict[str, Range]:
        return {
            tensor: range_of(self.statistics.of(tensor, self.split.final), "minmax") for tensor in self.plan.tensors
        }


def _assured(score: Score) -> float:
    """The lower end of the interval of the mean; of a single picture its own value."""
    low, _ = interval_of(score.values)
    return score.mean_db if low is None else low


def _wider(base: Choice, activations: Sequence[str], weights: Sequence[str], count: int) -> Choice:
    """Of four tensors three activations, which are the loss more often than weights; then whatever is left."""
    of_weights = min(len(weights), max(count // 4, count - len(activations)))
    wide = frozenset(activations[: count - of_weights])
    return replace(base, wide=wide, wide_weights=frozenset(weights[:of_weights]))


def _doubling(most: int) -> Iterable[int]:
    count = 1
    while count < most:
        yield count
        count *= 2
    if most:
        yield most


def _without(model: Any, plan: QuantizationPlan, tensors: Iterable[str]) -> QuantizationPlan:
    """The plan without the nodes that touch these tensors, which stay in float."""
    left_out = set(tensors)
    if not left_out:
        return plan
    touching = {node.name for node in model.graph.node if left_out & {*node.input, *node.output}}
    nodes = tuple(name for name in plan.nodes if name not in touching)
    return replace(plan, nodes=nodes, tensors=tuple(name for name in plan.tensors if name not in left_out))


def _rounded(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(float(value), 2)


__all__ = ["SearchResult", "Split", "search"]
