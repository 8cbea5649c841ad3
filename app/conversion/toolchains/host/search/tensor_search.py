"""The part of a search that looks at single tensors: what each costs alone in 8 bits, the range that suits it best, how
many of the last layers stay in float, and as few tensors as hold the goal in 16 bits, or in float."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from app.conversion.toolchains.budget import SEARCH_SHARE, SENSITIVITY_SHARE, Budget
from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.search import mixed_precision, sensitivity
from app.conversion.toolchains.host.search.acceptance import level_db
from app.conversion.toolchains.host.search.boundary import boundaries
from app.conversion.toolchains.host.search.candidate_builder import CandidateBuilder
from app.conversion.toolchains.host.search.candidates import WORTH_DB, Choice, Rewrites, TriedCandidate
from app.conversion.toolchains.host.search.integers import HEADROOM
from app.conversion.toolchains.host.search.judge import Judge
from app.conversion.toolchains.host.search.ranges import METHODS
from app.conversion.toolchains.host.search.score import JudgedPicture
from app.conversion.toolchains.host.search.sensitivity import HEARD_DB, Sensitivity
from app.conversion.toolchains.host.search.split import Split
from app.conversion.toolchains.host.search.template import Template
from app.conversion.toolchains.host.search.trials import Trials
from app.conversion.toolchains.journal import Journal
from app.inference.errors import UnsupportedOperator
from app.kit.sandbox.errors import StageFailed
from app.kit.text.json_values import JsonObject

SENSITIVITY_PICTURES = 4
HARDEST = 2
"""How often a picture that alone keeps a candidate from the goal counts among them."""
FLOAT_SHARE = 0.5
"""Of the tensors, at most, that are left in float to hold a goal."""


class TensorSearch:
    """Tries candidates that treat single tensors differently.

    Args:
        builder: makes the models.
        judge: has the pictures.
        split: of the pictures.
        trials: tries the candidates.
        budget: of the search.
        journal: has what was measured before.
        threads: of onnxruntime.
        tell: called with what is being done.
    """

    def __init__(
        self,
        builder: CandidateBuilder,
        judge: Judge,
        split: Split,
        trials: Trials,
        budget: Budget,
        journal: Journal,
        threads: int,
        tell: Callable[[str], None],
    ) -> None:
        self._builder, self._judge, self._split, self._trials = builder, judge, split, trials
        self._budget, self._journal, self._threads, self._tell = budget, journal, threads, tell
        self._measurements = 0
        self.rows: list[Sensitivity] = []
        self._pictures: list[JudgedPicture] = []
        self._rewrites: Rewrites = ()
        """Of the model whose tensors were measured."""
        self._rounded: TriedCandidate | None = None
        """What gets more bits, once it is known whether its weights are rounded by second order."""

    def template(self, choice: Choice) -> Template:
        """Returns the template of what is judged first."""
        return self._builder.basis(choice, self._first_parts).template

    def softmax_outputs(self, choice: Choice) -> list[str]:
        """Returns the activations that come from a Softmax."""
        made = {node.output[0] for node in self._builder.given.model.graph.node if node.op_type == "Softmax"}
        return [one.name for one in self.template(choice).activations if made & {*one.tensors}]

    @property
    def _first_parts(self) -> tuple[int, ...]:
        """Whose pictures calibrate what is judged first."""
        return self._split.calibrating(self._split.choose[0])

    @property
    def _needed_db(self) -> float:
        """SNR that is about sufficient; no SNR tells what the pictures that report accept."""
        return inf if self._trials.is_confirming else self._trials.goal_db

    def by_weights_db(self, choice: Choice) -> float:
        """Returns the SNR in dB with all activations in float, on a few pictures; minus infinity if that cannot be
        run."""
        activations = frozenset(one.name for one in self.template(choice).activations)
        build, parts = self._builder.of_part(choice, activations), self._split.choose[:1]
        try:
            judged = self._judge.judge(build, parts, is_given_up=lambda _: True, needs_task=lambda _: False)
        except StageFailed:
            return -inf
        return judged.score.mean_db

    def own_ranges(self) -> Iterator[Choice]:
        """The best in 8 bits with the range for each activation that suits it best."""
        base = self._trials.best_narrow.choice
        self._measure(base)
        methods = tuple((r.tensor, r.method) for r in self.rows if r.method not in ("", base.method))
        if methods:
            yield replace(base, methods=(*base.unit_methods, *methods))

    def widened(self) -> Iterator[Choice]:
        """More bits for what was the best in 8 bits."""
        if not self.rows:
            yield from self.own_ranges()
        yield from self.mixed(is_last=True)

    def mixed(self, *, is_last: bool = False) -> Iterator[Choice]:
        """The fewest tensors in 16 bits, in the order of what they save."""
        narrow = self._trials.best_narrow
        self._measure_changed(narrow.choice)
        narrow = self._round_weights(narrow)
        boundary, is_cheaper = self._try_boundary(narrow)
        base = boundary if is_cheaper else narrow
        if not self.rows:  # it cannot be told which tensors need them
            yield mixed_precision.widen(base.choice, mixed_precision.not_measured(self.template(base.choice), []))
            return
        hardest = self._widen(base, is_last=is_last)
        if hardest is not None and self._budget.allows(SENSITIVITY_SHARE):
            more = self._measure_sensitivities(
                base.choice, {base.choice.method: self._ranges(base.choice)}, [hardest] * HARDEST
            )
            self.rows = sensitivity.join_sensitivities(self.rows, more)
            self._widen(base, is_last=True)
        if not self._trials.trail.best.is_good and boundary is not base:
            self._widen(boundary, is_last=True)
        if not self._trials.trail.best.is_good and not self._trials.is_confirming:
            # values up to 10¹¹ leave no levels to spare; where only the pictures that report miss the goal, they do
            self._widen(base, is_last=True, has_headroom=False)
        if not self._trials.trail.best.is_good:  # a mask of −1e9 beside numbers of about one needs more than 16 bits
            self._widen(base, is_last=True, is_float=True)
        if not self._trials.trail.best.is_good:
            self._release()

    def _round_weights(self, base: TriedCandidate) -> TriedCandidate:
        """Returns the base with weights rounded by second order, where that gains with activations in float: as long as
        all activations have 8 bits, what they lose may hide it."""
        if self._rounded is not None:
            return self._rounded
        choice = replace(base.choice, is_rounded=True)
        self._rounded = base
        if base.choice.is_rounded or not self.rows or not self._budget.allows(SENSITIVITY_SHARE):
            return base
        by_nearest_db = self.by_weights_db(base.choice)
        if by_nearest_db > self._trials.goal_db + HEARD_DB or self.by_weights_db(choice) < by_nearest_db + WORTH_DB:
            return base
        tried = self._attempt_in_time(choice)
        if tried is not None:
            weights = frozenset(one.name for one in self.template(choice).weights)
            ranges = {choice.method: self._ranges(choice)}
            more = self._measure_sensitivities(choice, ranges, self._pictures, weights)
            self.rows = [row for row in self.rows if row.tensor not in weights] + more
            self._rounded = tried
        return self._rounded

    def _try_boundary(self, base: TriedCandidate) -> tuple[TriedCandidate, bool]:
        """Try how many of the last layers to leave in float, as long as more of them gain.

        Returns:
            The best with them, or the base; and whether 16 bits for as many tensors of any layers are expected to gain
            less.
        """
        has_own_ranges = base.choice.has_own_ranges
        order = mixed_precision.order_greedily(self.rows, with_own_ranges=has_own_ranges)
        expected = mixed_precision.predict_db(order, with_own_ranges=has_own_ranges) if order else []
        best, is_cheaper = base, False
        for tail in boundaries(self.template(base.choice)):
            if not self._budget.allows(SENSITIVITY_SHARE) or len(tail) >= len(expected):
                break
            try:
                tried = self._trials.attempt(replace(base.choice, tail=tail))
            except StageFailed as error:
                print(f"the last layers cannot stay in float: {error.message}")
                break
            if level_db(tried) < level_db(best) + WORTH_DB:
                break
            best = tried
            is_cheaper = tried.score.mean_db >= base.score.mean_db + expected[len(tail)] - expected[0]
            if tried.is_good:
                break
        return best, is_cheaper

    def _widen(
        self, base: TriedCandidate, *, is_last: bool = False, is_float: bool = False, has_headroom: bool = True
    ) -> JudgedPicture | None:
        """Try numbers of tensors in 16 bits, or in float.

        Args:
            has_headroom: ranges in 16 bits are wider than what was seen. Without it, fewer tensors than all are tried
                only if all reach the goal.

        Returns:
            The picture that alone keeps one of them from the goal, as what it needs was not measured: it ends this,
            unless it is the last.
        """
        has_own_ranges, tail = base.choice.has_own_ranges, base.choice.tail
        measured = mixed_precision.order_greedily(
            [row for row in self.rows if row.tensor not in tail], with_own_ranges=has_own_ranges
        )
        others = mixed_precision.not_measured(self.template(base.choice), measured)
        order = [*measured, *(row for row in others if row.tensor not in tail)]
        expected = mixed_precision.predict_db(measured, with_own_ranges=has_own_ranges)
        expected += expected[-1:] * (len(order) - len(measured))
        if is_float:
            expected = expected[: 1 + int(FLOAT_SHARE * len(order))]
        forecast, hardest = mixed_precision.Forecast(expected, base.score.mean_db), list[JudgedPicture]()

        def choice_of(count: int) -> Choice:
            return mixed_precision.widen(base.choice, order[:count], is_float=is_float, has_headroom=has_headroom)

        def attempt(count: int) -> tuple[bool, float] | None:
            tried = self._attempt_in_time(choice_of(count), forecast.snr_db(count))
            if tried is None:
                return None
            forecast.learn(count, tried.score.mean_db)
            picture = tried.score.lowest_picture
            if not is_last and picture is not None and not tried.is_good and level_db(tried) >= self._trials.goal_db:
                hardest.append(picture)
                return None
            return tried.is_good, level_db(tried)

        if not has_headroom:
            of_all = attempt(len(order))
            if of_all is None or not of_all[0]:
                return None
        known = dict[int, tuple[bool, float]]()
        for one in self._trials.trail.candidates:
            count = one.choice.tensors_16 - len(tail)
            if 0 < count < len(expected) and one.choice == choice_of(count):
                known[count] = one.is_good, level_db(one)
                forecast.learn(count, one.score.mean_db)
        mixed_precision.fewest(expected, level_db(base), self._needed_db, attempt, known)
        return hardest[0] if hardest else None

    def _release(self) -> None:
        """Try 16 bits for all tensors but the fewest for which they are too coarse, which stay in float, in the order
        of what each costs alone."""
        wide = [one for one in self._trials.trail.candidates if one.choice.tensors_16 == one.tensors]
        base = max(wide, key=level_db, default=None)
        if base is None:
            return
        choice = base.choice
        ranges, part = {choice.method: self._ranges(choice)}, self._split.choose[0]
        pictures = self._judge.probes(part, SENSITIVITY_PICTURES, base.score.lowest_picture)
        rows = self._measure_sensitivities(choice, ranges, pictures, choice.wide | choice.wide_weights, is_wide=True)
        order = mixed_precision.order_greedily(rows, with_own_ranges=False)[: int(FLOAT_SHARE * base.tensors)]
        if not order:
            return

        expected = mixed_precision.predict_db(order, with_own_ranges=False)
        forecast = mixed_precision.Forecast(expected, base.score.mean_db)

        def attempt(count: int) -> tuple[bool, float] | None:
            exact = frozenset(row.tensor for row in order[:count])
            wide, weights = choice.wide - exact, choice.wide_weights - exact
            released = replace(choice, wide=wide, wide_weights=weights, exact=choice.exact | exact)
            tried = self._attempt_in_time(released, forecast.snr_db(count))
            if tried is None:
                return None
            forecast.learn(count, tried.score.mean_db)
            return tried.is_good, level_db(tried)

        mixed_precision.fewest(expected, level_db(base), self._needed_db, attempt)

    def _attempt_in_time(self, choice: Choice, expected_db: float | None = None) -> TriedCandidate | None:
        """Returns the candidate that was tried; None without time, or where it cannot be made."""
        if not self._budget.allows(SEARCH_SHARE):
            return None
        try:
            return self._trials.attempt(choice, expected_db)
        except StageFailed as error:
            print(f"{choice.name} cannot be made: {error.message}")
            return None

    def _measure(self, base: Choice) -> None:
        """Each tensor alone in 8 bits, with the range that suits it best."""
        methods = (base.method, *(method for method in METHODS if method != base.method))
        ranges = {method: self._ranges(replace(base, method=method, methods=base.unit_methods)) for method in methods}
        lowest = self._trials.best_narrow.score.lowest_picture
        self._pictures = self._judge.probes(self._split.choose[0], SENSITIVITY_PICTURES, lowest)
        self.rows, self._rewrites = self._measure_sensitivities(base, ranges, self._pictures), base.rewrites

    def _measure_changed(self, base: Choice) -> None:
        """Measures what was rewritten since; the others keep what was measured."""
        since = [base.rewrites[:count] for count in range(len(self._rewrites) + 1, len(base.rewrites) + 1)]
        if not self.rows or not since:
            return
        template = self.template(base)
        names = {one.name for one in template.activations} | {one.name for one in template.weights}
        changed = names & frozenset.union(*map(self._builder.changed, since))
        ranges = {base.method: self._ranges(base)}
        self.rows = [row for row in self.rows if row.tensor in names - changed]
        self.rows += self._measure_sensitivities(base, ranges, self._pictures, changed)
        self._rewrites = base.rewrites

    def _ranges(self, choice: Choice) -> dict[str, Range]:
        return self._builder.basis(choice, self._first_parts).ranges(choice, self._first_parts)

    def _measure_sensitivities(
        self,
        base: Choice,
        ranges: Mapping[str, Mapping[str, Range]],
        pictures: Sequence[JudgedPicture],
        only: Collection[str] | None = None,
        *,
        is_wide: bool = False,
    ) -> list[Sensitivity]:
        """Returns what each of these tensors costs alone.

        Args:
            base: of whose model they are.
            ranges: by method, then by activation.
            pictures: on which it is measured.
            only: which tensors; None: all.
            is_wide: in 16 bits, as the base has them.

        Returns:
            Nothing if it cannot be measured.
        """
        template = self.template(base)
        count = len(template.activations) + len(template.weights) if only is None else len(only)
        self._tell(f"measuring what each of {count} tensors costs alone")
        self._measurements += 1
        headroom = HEADROOM if base.has_headroom else 1.0
        name = f"tensors {self._measurements} {json.dumps(base.steps())}"

        def measured() -> list[JsonObject]:
            rows = sensitivity.measure(
                template,
                ranges,
                pictures,
                self._judge.targets,
                self._trials.goal_db,
                threads=self._threads,
                has_time=lambda: self._budget.allows(SEARCH_SHARE if is_wide else SENSITIVITY_SHARE),
                only=only,
                silent_powers=self._judge.silent_powers,
                headroom=headroom if is_wide else None,
            )
            return [row.to_json() for row in rows]

        try:
            return [Sensitivity.from_json(row) for row in self._journal.remember(name, measured)]
        except (UnsupportedOperator, StageFailed) as error:
            print(f"sensitivity cannot be measured: {error.message}")
            return []
