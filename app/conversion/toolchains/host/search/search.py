"""The search itself, in the order of cost: ranges for all activations by one method, channels equalized, weights
rounded by second order, the best range for each activation, wide channels smoothed or split, biases corrected, and the
last layers in float and 16 bits, or float, for as few tensors as hold the goal. Each step is kept only where it was
measured better on pictures that set none of its ranges. What holds the goal ends it; in 8 bits, where more is had for
nothing, the better is looked for a while longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from app.conversion.goals import Goal
from app.conversion.options import HostQuantization
from app.conversion.toolchains.base import SNR_DB_MIN, Progress
from app.conversion.toolchains.budget import LAST_RESORT_S, SEARCH_SHARE, Budget
from app.conversion.toolchains.first_bad_layer import FirstBadLayer
from app.conversion.toolchains.host.inputs import Samples
from app.conversion.toolchains.host.quantization_plan import QuantizationPlan
from app.conversion.toolchains.host.search.acceptance import level_db
from app.conversion.toolchains.host.search.basis import basis_of
from app.conversion.toolchains.host.search.candidate_builder import CandidateBuilder
from app.conversion.toolchains.host.search.candidates import IN_FLOAT, Choice, Rewrites, TriedCandidate
from app.conversion.toolchains.host.search.first_bad import MissedGoal, first_bad
from app.conversion.toolchains.host.search.judge import Judge
from app.conversion.toolchains.host.search.ranges import METHODS, UNIT_METHOD
from app.conversion.toolchains.host.search.recipe import choice_of, rewrites_of
from app.conversion.toolchains.host.search.report import SearchOutcome
from app.conversion.toolchains.host.search.result import SearchResult
from app.conversion.toolchains.host.search.shortfall import Shortfall, shortfall
from app.conversion.toolchains.host.search.split import split_of
from app.conversion.toolchains.host.search.tensor_search import TensorSearch
from app.conversion.toolchains.host.search.trials import Trials
from app.conversion.toolchains.host.search.unlikeness import looks_of
from app.conversion.toolchains.host.task_drop import DropMeter
from app.conversion.toolchains.journal import Journal
from app.kit.sandbox.errors import StageFailed

FIRST_METHODS = METHODS[:4]
"""Tried for all activations at once, first the one that a plain conversion takes; the others only for single ones."""
ENOUGH_DB = 50.0
"""A candidate in 8 bits that holds the goal with so much is as good as any."""
SMALL_PART_DB = 12.0
"""Where weights in 8 bits alone give so much more than all in 8 bits, exact ones would gain less than 0.3 dB."""
FURTHER_REWRITES: Rewrites = ("smoothing", "channel_splitting")
SLOWER = "int8 is slower than float on this machine, and the fastest is asked for: the model stays in float"


class QuantizationSearch:
    """Finds the cheapest quantization that holds the goal.

    Args:
        model: onnx.ModelProto, float.
        plan: what would be quantized if all of it went well.
        options: what is fixed beforehand; the search varies the rest.
        goal: the quality to reach, and the seconds it may take.
        threads: of onnxruntime.
        meter_of: makes a meter of the task for a candidate; None: the task is not measured.
        step: called with the share that is done, 0..1, and what is being done.
        reporting: places of the samples that neither calibrate nor choose; the result is reported on them.
        logits: exposed inputs of sigmoids, by the output that comes from each.
        last_resort_s: seconds by the clock after which a search without a named budget ends, too.
        kept_in: file that keeps what was measured, for a process that continues this one, and digest of the work.

    Raises:
        NotFinite: An input or an output of the float model holds a NaN or an infinity.
        NothingToQuantize: As far as its tensors are finite.
        StageFailed: onnxruntime's quantizer cannot make a model.
    """

    def __init__(
        self,
        model: Any,
        plan: QuantizationPlan,
        samples: Samples,
        options: HostQuantization,
        goal: Goal,
        *,
        threads: int,
        meter_of: Callable[[], DropMeter | None],
        step: Progress,
        reporting: Sequence[int] = (),
        logits: Mapping[str, str] | None = None,
        last_resort_s: float = LAST_RESORT_S,
        kept_in: tuple[Path | None, str] = (None, ""),
    ) -> None:
        self.samples, self.options, self.goal = samples, options, goal
        self.threads, self.step = threads, step
        self.budget = Budget(options.budget_s, last_resort_s)
        self.split = split_of(looks_of(samples), reporting)
        given = basis_of(model, plan, samples, self.split, options, threads=threads, step=self._report_calibration)
        self.judge = Judge(model, samples, self.split, threads=threads, meter_of=meter_of, logits=logits)
        self.builder = CandidateBuilder(given, self.split, self.judge.examples, options, threads)
        journal = Journal(*kept_in, self.budget)
        if journal.known:
            print(f"going on after {journal.known} measurements of a process that has ended")
        self.trials = Trials(self.builder, self.judge, self.split, goal, journal, self._log_candidate)
        self.trail = self.trials.trail
        parts = self.builder, self.judge, self.split, self.trials, self.budget, journal
        self.tensors = TensorSearch(*parts, threads, self._tell)

    def run(self) -> SearchResult:
        """Tries candidates until one is enough, or the time is up."""
        self._attempt_all(self._iterate_choices())
        if self.goal.threshold is not None:
            self.trials.confirm_best()
        best = self.trail.best
        may_be_cheaper = self.trials.is_confirming and not (best.is_good and best.choice.tensors_16 == 0)
        if may_be_cheaper and self.budget.allows(SEARCH_SHARE):
            print("pictures that did not choose miss the goal: from now on candidates have to reach it on them, too")
            self._attempt_all(self.tensors.widened())
        return self._build_result(self.trail.best)

    def _attempt_all(self, choices: Iterable[Choice]) -> None:
        """Until one is enough, or the time is up."""
        for choice in choices:
            try:
                self.trials.attempt(choice)
            except StageFailed as error:
                if not self.trail.candidates:
                    raise
                print(f"{choice.name} cannot be made: {error.message}")
            if len(self.trail.candidates) == 1:
                self.budget.settle(self.builder.given.model.ByteSize())
                print(f"the search may take {self.budget.text}")
            if self._has_enough() or not self.budget.allows(SEARCH_SHARE):
                break

    def _has_enough(self) -> bool:
        """Whether the search may end: one candidate reaches the goal, and looking for a better one in 8 bits is not
        worth it; or SNR is the goal and no picture has one, so that all candidates are alike."""
        best = self.trail.best
        if self.goal.kind == "snr" and not best.score.values:
            return True
        if self.goal.threshold is None or not best.is_good:
            return False
        is_better_free = self.goal.kind == "snr" and best.choice.tensors_16 == 0 and best.score.mean_db < ENOUGH_DB
        return not (is_better_free and self.budget.allows_more_of_the_same())

    def _build_result(self, taken: TriedCandidate) -> SearchResult:
        basis = self.builder.basis(taken.choice, self.split.final)
        reported = self.trials.report(taken.choice)
        is_met = self.trials.is_met(reported)
        used_up = "last_resort" if self.budget.is_last_resort else "budget"
        ended_by = "exhausted" if self.budget.allows(SEARCH_SHARE) else used_up
        missed = None if is_met and taken.is_good else self._measure_shortfall(taken)
        outcome = SearchOutcome(
            self.goal,
            self.budget,
            self.trail,
            taken,
            self.tensors.rows,
            self.split,
            reported,
            is_met,
            "given" if self.goal.kind == "given" else "reached" if self.goal.text and taken.is_good else ended_by,
            self.judge.float_latency_ms,
            self._find_first_bad(),
            missed,
        )
        return SearchResult(
            self.builder.built(taken.choice, self.split.final),
            basis.model,
            basis.statistics.not_finite,
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

    def _can_be_explained(self, candidate: TriedCandidate) -> bool:
        """Whether the goal is an SNR or a loss of the task, and that of the candidate is known."""
        score = candidate.score
        is_known = {"snr": bool(score.values), "drop": score.drop_percent is not None}
        return not candidate.choice.is_float and is_known.get(self.goal.kind, False)

    def _measure_shortfall(self, taken: TriedCandidate) -> Shortfall | None:
        """None where it cannot be measured: what was chosen stands without it."""
        if not self._can_be_explained(taken):
            return None
        self._tell("measuring what stands in the way of the goal")
        try:
            return shortfall(self._explain(taken))
        except StageFailed as error:
            self._tell(f"what stands in the way of the goal cannot be measured: {error.message}")
            return None

    def _find_first_bad(self) -> FirstBadLayer | None:
        narrow = [one for one in self.trials.narrow if self._can_be_explained(one)]
        if not narrow or any(one.is_good for one in narrow):
            return None
        self._tell("looking for the first layer that misses the goal")
        return first_bad(self._explain(self.trials.best_narrow))

    def _explain(self, candidate: TriedCandidate) -> MissedGoal:
        parts, has_time = (self.builder, self.judge, self.split), partial(self.budget.allows, 1.0)
        drop_most = self.goal.threshold if self.goal.kind == "drop" else None
        return MissedGoal(*parts, candidate.choice, self.trials.goal_db, has_time, drop_most)

    # --- what is tried ----------------------------------------------------------------------------------
    def _iterate_choices(self) -> Iterator[Choice]:
        """Ever more expensive; the caller stops when it has enough."""
        if self.options.steps:
            yield from self._from_steps()
            return
        for method in FIRST_METHODS:
            yield Choice(method)
        yield from self._try_unit_ranges()
        if self.goal.kind == "fastest":
            if self.judge.is_slower_than_float(self.builder.built(self.trials.best_narrow.choice, self.split.final)):
                yield IN_FLOAT
            return
        best = self.trail.best
        if best.is_good if self.goal.threshold is not None else level_db(best) >= SNR_DB_MIN:
            yield from self._try_rounding()  # what else there is may be worse on other scenes
            yield replace(self.trail.best.choice, is_corrected=True)
            return
        yield from self._try_equalization()
        yield from self._try_rounding()
        if self.goal.kind != "best":
            yield from self.tensors.own_ranges()
            yield from self._try_further_rewrites()
        yield replace(self.trials.best_narrow.choice, is_corrected=True)
        if self.goal.threshold is not None and not self.trail.best.is_good:
            yield from self.tensors.mixed()

    def _from_steps(self) -> Iterator[Choice]:
        """What is known already, and where it does not hold the goal, what may: other ranges, and more bits."""
        rewrites = rewrites_of(self.options.steps)
        for count in range(1, len(rewrites) + 1):
            if not self.builder.rewrite(rewrites[:count], self.samples, self._report_calibration):
                raise StageFailed(f"the steps ask for {rewrites[count - 1]}, and this model has nothing for it")
        template = self.tensors.template(Choice(METHODS[0], rewrites=rewrites))
        names = [one.name for one in template.activations], [one.name for one in template.weights]
        start = choice_of(self.options.steps, *names)
        yield start
        if self.goal.threshold is not None:
            yield start.in_8_bits
            yield from self.tensors.own_ranges()
            yield from self.tensors.mixed()

    def _try_unit_ranges(self) -> Iterator[Choice]:
        """Softmaxes whose whole range is kept: one value above the others on samples that calibrated nothing."""
        base = self.trials.best_narrow.choice
        outputs = self.tensors.softmax_outputs(base)
        if outputs:
            yield replace(base, methods=tuple((tensor, UNIT_METHOD) for tensor in outputs))

    def _try_equalization(self) -> Iterator[Choice]:
        rewrites: Rewrites = ("equalization",)
        if self.builder.rewrite(rewrites, self.samples, self._report_calibration):
            base = self.trials.best_narrow.choice
            for method in dict.fromkeys((base.method, "mse")):
                yield replace(base, method=method, methods=self._methods_after(base, rewrites), rewrites=rewrites)

    def _try_rounding(self) -> Iterator[Choice]:
        """Weights rounded by second order, unless their rounding is too small a part of the loss to matter."""
        best = self.trials.best_narrow
        by_weights_db = self.tensors.by_weights_db(best.choice)
        if by_weights_db < best.score.mean_db + SMALL_PART_DB:
            yield replace(best.choice, is_rounded=True)
        else:
            print(f"weights in 8 bits alone give {by_weights_db:.1f} dB: they stay rounded to nearest")

    def _try_further_rewrites(self) -> Iterator[Choice]:
        """What is still widened by a few channels smoothed or split; tensors that change lose their own ranges."""
        for kind in FURTHER_REWRITES:
            base = self.trials.best_narrow.choice
            rewrites = (*base.rewrites, kind)
            if self.builder.rewrite(rewrites, self.samples, self._report_calibration):
                yield replace(base, rewrites=rewrites, methods=self._methods_after(base, rewrites))

    def _methods_after(self, base: Choice, rewrites: Rewrites) -> tuple[tuple[str, str], ...]:
        """Returns the methods of tensors that the rewrites do not change."""
        changed = self.builder.changed(rewrites)
        return tuple((tensor, method) for tensor, method in base.methods if tensor not in changed)

    def _log_candidate(self, text: str) -> None:
        print(f"{text}, after {self.budget.elapsed_s:.1f} s")
        self._tell(f"tried {len(self.trail.candidates)}")

    def _report_calibration(self, done: int, of: int) -> None:
        self.step(0.0, f"calibrating {done}/{of}")

    def _tell(self, text: str) -> None:
        self.step(min(1.0, self.budget.share), text)
