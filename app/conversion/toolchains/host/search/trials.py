"""Builds and judges candidates one by one, and keeps those that were tried."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from statistics import fmean

from app.conversion.goals import Goal
from app.conversion.toolchains.base import SNR_DB_MIN
from app.conversion.toolchains.host.search.acceptance import ALTERED_SLACK_DB, MARGIN_DB, holds, lower_of
from app.conversion.toolchains.host.search.candidate_builder import CandidateBuilder
from app.conversion.toolchains.host.search.candidates import Choice, Trail, TriedCandidate
from app.conversion.toolchains.host.search.interval import most_of
from app.conversion.toolchains.host.search.judge import Build, Judge
from app.conversion.toolchains.host.search.score import Score
from app.conversion.toolchains.host.search.split import Split
from app.conversion.toolchains.journal import Journal
from app.kit.text.json_values import JsonObject

TASK_DB = 3.0
"""Where SNR is the goal, the task is measured of candidates that are no more than this below it."""


class Trials:
    """Tries candidates.

    Args:
        builder: makes the models.
        judge: judges them.
        split: of the pictures.
        journal: has the results of candidates that were judged before.
        tell: called with a line after each candidate.
    """

    def __init__(
        self,
        builder: CandidateBuilder,
        judge: Judge,
        split: Split,
        goal: Goal,
        journal: Journal,
        tell: Callable[[str], None],
    ) -> None:
        self._builder, self._judge, self._goal, self._tell = builder, judge, goal, tell
        self._journal = journal
        self._parts, self._first_parts, self._final = split.choose, split.calibrating(split.choose[0]), split.final
        self._report, self._reported = split.report, dict[Choice, Score]()
        self._delivered: tuple[Choice, Build] | None = None
        self.trail = Trail(is_by_task=goal.kind == "drop", goal_db=goal.threshold if goal.kind == "snr" else None)

    @property
    def is_confirming(self) -> bool:
        """Whether candidates have to reach the goal on the pictures that report, too: since one has missed it there."""
        return any(one.misses_unseen for one in self.trail.candidates)

    @property
    def goal_db(self) -> float:
        return self._goal.threshold if self._goal.kind == "snr" and self._goal.threshold else SNR_DB_MIN

    @property
    def best_narrow(self) -> TriedCandidate:
        """In 8 bits, on altered pictures, too: a range that cuts extremes costs most where it has not seen them."""
        return max(self.narrow, key=lambda one: one.sure_db - one.choice.slack_db)

    @property
    def narrow(self) -> list[TriedCandidate]:
        return [one for one in self.trail.candidates if one.choice.tensors_16 == 0 and one.score.is_whole]

    def attempt(self, choice: Choice, expected_db: float | None = None) -> TriedCandidate:
        """Builds and judges a candidate, or returns the one that was made of the same choice before.

        Args:
            choice: what is to be built.
            expected_db: SNR that is predicted; None without a prediction.

        Raises:
            StageFailed: It cannot be built or run.
        """
        same = next((one for one in self.trail.candidates if one.choice == choice), None)
        if same is not None:
            return same
        row = self._journal.remember(f"candidate {json.dumps(choice.steps())}", lambda: self._judge_once(choice))
        score, altered_db = Score.from_json(row["score"], self._judge.pictures), row["altered_db"]
        is_near = self._is_near(score)
        is_good = is_near and self._is_assured(altered_db)
        is_refused = is_good and self.is_confirming and not self.is_met(self.report(choice))
        candidate = TriedCandidate(
            len(self.trail.candidates),
            choice,
            score,
            is_good and not is_refused,
            is_near,
            row["tensors"],
            row["size_bytes"],
            row["latency_ms"],
            altered_db,
            min(score.assured_db, inf if altered_db is None else altered_db),
            expected_db,
            is_refused,
        )
        self.trail.add(candidate)
        self._tell(f"candidate {candidate.id}: {candidate.summary}")
        return candidate

    def _judge_once(self, choice: Choice) -> JsonObject:
        """Returns the results as JSON.

        The score is the lower one of two: of the model whose ranges do not know the pictures, and of the model as it
        would be delivered, which is judged only where the first may be taken. Their ranges differ, since the pictures
        that choose are unlike those that only calibrate.
        """
        build, is_narrow = self._builder.of_part(choice), choice.tensors_16 == 0
        judged = self._judge.judge(
            build,
            self._parts,
            is_given_up=self._is_given_up if is_narrow else None,
            needs_task=self._needs_task,
            is_timed=True,
        )
        template, score = self._builder.basis(choice, self._first_parts).template, judged.score
        is_promising = self._is_near(score) or (is_narrow and self._may_be_best(score))
        altered_db = self._estimate_altered_db(build) if is_promising else None
        if is_promising:
            score = lower_of(self._goal, score, self._judge_as_delivered(choice))
        return {
            "score": score.to_json(self._judge.pictures),
            "altered_db": altered_db,
            "tensors": len(template.activations) + len(template.weights),
            "size_bytes": judged.size_bytes,
            "latency_ms": judged.latency_ms,
        }

    def _judge_as_delivered(self, choice: Choice) -> Score:
        """Returns the score of the model that would be delivered."""
        return self._judge.judge(self._as_delivered(choice), self._parts, needs_task=self._needs_task).score

    def _as_delivered(self, choice: Choice) -> Build:
        """Returns what makes the model that would be delivered: the same as before if the choice is."""
        if self._delivered is None or self._delivered[0] != choice:
            model = self._builder.built(choice, self._final)
            self._delivered = choice, lambda _: model
        return self._delivered[1]

    def confirm_best(self) -> None:
        """Refuses the best candidates until one reaches the goal on the pictures that report, too. If the first does
        not, all later ones have to."""
        while (best := self.trail.best).is_good and not self.is_met(self.report(best.choice)):
            best.is_good, best.misses_unseen = False, True

    def report(self, choice: Choice) -> Score:
        """Returns the score on the pictures that report, each with a model whose ranges do not know it."""
        if choice not in self._reported:
            is_by_task = self.trail.is_by_task
            build = self._builder.of_part(choice) if self._report is None else self._as_delivered(choice)
            parts = self._parts if self._report is None else (self._report,)
            self._reported[choice] = self._judge.judge(build, parts, needs_task=lambda _: is_by_task).score
        return self._reported[choice]

    def is_met(self, reported: Score) -> bool:
        """Returns whether the pictures that report reach the goal, as far as they show what it is about."""
        shows_nothing = self.trail.is_by_task and reported.drop_percent is None
        return bool(reported.values) and (shows_nothing or holds(self._goal, reported))

    def _is_near(self, score: Score) -> bool:
        return score.is_whole and holds(self._goal, score, MARGIN_DB)

    def _is_assured(self, altered_db: float | None) -> bool:
        return self._goal.kind != "snr" or altered_db is None or altered_db >= self.goal_db - ALTERED_SLACK_DB

    def _may_be_best(self, score: Score) -> bool:
        """Among those in 8 bits: what is sure of altered pictures, too, is no more than what is sure of these."""
        return score.is_whole and (not self.narrow or score.assured_db > self.best_narrow.sure_db)

    def _is_given_up(self, score: Score) -> bool:
        """Is it surely below the best in 8 bits? Its first pictures are held against the best's on the same ones."""
        if self._goal.kind == "drop" or not self.narrow:
            return False
        best, output = self.best_narrow, score.worst_output
        values = best.score.by_output.get(output, [])
        known = dict(zip(best.score.names.get(output, ()), values, strict=True))
        own = zip(score.names.get(output, ()), score.values, strict=True)
        gains = [value - known[name] for name, value in own if name in known]
        return len(gains) > 1 and fmean(values) + most_of(gains) < best.sure_db

    def _needs_task(self, score: Score) -> bool:
        return self._goal.kind != "snr" or score.mean_db >= self.goal_db - TASK_DB

    def _estimate_altered_db(self, build: Build) -> float | None:
        """What is sure of altered pictures, of the alteration that does worst. None if SNR is not the goal, or the
        inputs are no pictures."""
        if self._goal.kind != "snr" or self._goal.threshold is None:
            return None
        scores = self._judge.judge_altered(build, self._parts)
        return min((score.assured_db for score in scores), default=None)
