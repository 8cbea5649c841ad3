"""What the measurements of video compute and print: a row for each policy, and beside the aims what was measured.

The demand is the frames of the source. One that a plan leaves out has the answer of the frame before it: with that one
it is in time, late or missing, and it costs quality."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from app.video.model.plan import Plan
from tests.harness.deployment import percentile

WIDTH, WHAT = 26, 168
LATE_REPORT_S = 1.2
IN_TIME = 0.05
"""The share of violations up to which a plan satisfies the constraint."""
AS_GOOD, AS_MANY = 0.01, 0.95
"""Qualities with at most this difference, and rates with at least this ratio, count as equal."""
CONSTANT, CHANGING = 1.3, 0.5
"""The aim: violations at most this many times those of the best fixed plan, chosen in hindsight, that is equal."""
TELLABLE = 0.005
"""Shares of violations up to this one are not told apart: two or three frames of a row."""


@dataclass(frozen=True)
class SeenFrame:
    """A processed frame. Seconds are of one clock."""

    number: int
    """In the source, of those that the plan's rate takes."""
    captured: float
    took_s: float
    reported: float
    plan: Plan
    """In force when it was reported."""


class Ran(Protocol):
    """See ops.benchmarks.video_nodes.Job."""

    @property
    def plans(self) -> Sequence[tuple[float, Plan]]: ...
    @property
    def frames(self) -> Sequence[SeenFrame]: ...
    @property
    def sent(self) -> Sequence[float]: ...
    @property
    def decisions(self) -> Sequence[float]: ...


class Graded(Protocol):
    @property
    def fps(self) -> float: ...
    def quality(self, size: str, model: int, nskip: int) -> float: ...


@dataclass(frozen=True)
class Row:
    """demand: frames of the source; violations: the share of them whose answer came too late or not at all; drops: not
    at all. fps: frames a second that a job has looked at; quality: F1 of what the plans look at, where a frame that is
    left out keeps the boxes of the one before."""

    name: str
    demand: int
    violations: float
    p50_s: float
    p95_s: float
    fps: float
    drops: float
    bytes_up: float
    quality: float
    changes_per_min: float
    decision_ms: float
    is_fixed: bool

    def __str__(self) -> str:
        return (
            f"{self.name:{WIDTH}}{self.demand:>8}{self.violations:>10.1%}{self.p50_s * 1000:>8.0f} ms"
            f"{self.p95_s * 1000:>8.0f} ms{self.fps:>7.1f}{self.drops:>8.1%}{self.bytes_up:>11,.0f}{self.quality:>9.3f}"
            f"{self.changes_per_min:>9.1f}{self.decision_ms:>8.1f} ms"
        )


def titled() -> str:
    return (
        f"{'':{WIDTH}}{'demand':>8}{'violated':>10}{'p50':>11}{'p95':>11}{'seen/s':>7}{'drops':>8}{'bytes up':>11}"
        f"{'quality':>9}{'changes':>9}{'decided':>11}"
    )


@dataclass(frozen=True)
class _Answered:
    """frames: of the source that a processed frame answers, itself included; missed: those after them without an
    answer."""

    seen: SeenFrame
    frames: float
    missed: float


def row_of(
    name: str, jobs: Sequence[Ran], case: Graded, began: float, seconds: float, hi_s: float, *, is_fixed: bool
) -> Row:
    """Makes a row of the frames that were captured in a time.

    Args:
        name: of the policy or plan.
        jobs: what their runners reported.
        case: the clip.
        began: of the time, by the clock of the frames.
        seconds: the length of the time.
        hi_s: the longest delay allowed.
        is_fixed: whether the plan stayed by intention.
    """
    ended = began + seconds
    answered = [one for job in jobs for one in _answered(job.frames, case.fps, began, ended)]
    silent = sum(_silent(job.frames, case.fps, began, ended) for job in jobs)
    missed = silent + sum(one.missed for one in answered)
    demand = max(1.0, missed + sum(one.frames for one in answered))
    late = sum(one.frames for one in answered if one.seen.took_s > hi_s)
    times = sorted(one.seen.took_s for one in answered) or [float("inf")]
    changes = sum(1 for job in jobs for at, _ in job.plans if began < at <= ended)
    decisions = [took for job in jobs for took in job.decisions]
    sent = [size for job in jobs for size in job.sent]
    return Row(
        name,
        round(demand),
        (late + missed) / demand,
        percentile(times, 0.5),
        percentile(times, 0.95),
        len(answered) / (seconds * len(jobs)),
        missed / demand,
        sum(sent) / len(sent) if sent else 0.0,
        _quality(answered, case),
        changes * 60 / seconds / len(jobs),
        percentile(sorted(decisions), 0.95) if decisions else 0.0,
        is_fixed,
    )


def _answered(frames: Sequence[SeenFrame], fps: float, began: float, ended: float) -> Iterator[_Answered]:
    """Yields the processed frames of the time. How many frames of the source one stands for is seen from the number of
    the next one; the last one of all is not counted."""
    before: Plan | None = None
    for one, following in pairwise(frames):
        plans = [one.plan] if before is None else [one.plan, before]
        if one.reported != following.reported:  # the next report may begin with frames of this plan
            before = one.plan
        if began <= one.captured < ended:
            share = max(1.0, fps / one.plan.video_conf.fps)
            gap = share * max(1, following.number - one.number)
            count = min(gap, max(_cycle(plan, fps) for plan in plans))
            yield _Answered(one, count, gap - count)


def _silent(frames: Sequence[SeenFrame], fps: float, began: float, ended: float) -> float:
    """Returns the frames of the source after the last processed one, of a job that brings none any more."""
    last = max((frame.captured for frame in frames), default=began)
    return max(0.0, ended - max(began, last)) * fps if ended - last > LATE_REPORT_S else 0.0


def _cycle(plan: Plan, fps: float) -> float:
    """Returns the number of source frames for each processed one."""
    conf = plan.video_conf
    return (1 + conf.nskip + conf.ntracking) * max(1.0, fps / conf.fps)


def _quality(answered: Sequence[_Answered], case: Graded) -> float:
    """Returns the mean quality of the source's answered frames."""
    graded = [
        case.quality(
            min(one.seen.plan.video_conf.resolution, "720p", key=lambda size: int(size[:-1])),
            max(place.model_id for place in one.seen.plan.flow_mapping.values()),
            round(_cycle(one.seen.plan, case.fps)) - 1,
        )
        * one.frames
        for one in answered
    ]
    return sum(graded) / sum(one.frames for one in answered) if answered else 0.0


def best_fixed(rows: Sequence[Row]) -> Row | None:
    return min((row for row in rows if row.is_fixed), key=lambda row: row.violations, default=None)


def equals(rows: Sequence[Row], mine: Row) -> list[Row]:
    """Returns the fixed plans that are as good and processed as many frames."""
    return [
        row for row in rows if row.is_fixed and row.quality >= mine.quality - AS_GOOD and row.fps >= AS_MANY * mine.fps
    ]


def best_quality(rows: Sequence[Row]) -> float | None:
    """Returns the best quality of fixed plans that satisfy the constraint; if none does, of the least violating one."""
    best = best_fixed(rows)
    kept = [row.quality for row in rows if row.is_fixed and row.violations <= IN_TIME]
    return max(kept, default=best.quality if best else None)


@dataclass(frozen=True)
class Aim:
    what: str
    measured: str
    aim: str
    is_met: bool

    def __str__(self) -> str:
        return f"{self.what:{WHAT}} {self.measured:>12} {self.aim:>12}   {'met' if self.is_met else 'not met'}"


def lines(rows_by_policy: Mapping[str, Sequence[Row]], shares: Sequence[tuple[str, float]]) -> list[str]:
    """Returns the measurements beside the aims."""
    aims = [aim for scenario, rows in rows_by_policy.items() for aim in _aims(scenario, rows)]
    aims += [Aim(what, f"{share:.2f}×", ">= 0.90×", share >= 0.9) for what, share in shares]
    return [f"\n{'':{WHAT}} {'measured':>12} {'aim':>12}", *(str(aim) for aim in aims)]


def _aims(scenario: str, rows: Sequence[Row]) -> Iterator[Aim]:
    mine = next((row for row in rows if row.name == "profile"), None)
    if mine is None:
        return
    yield beside(scenario, mine, best_fixed(equals(rows, mine)), best_fixed(rows))
    quality = best_quality(rows)
    if scenario.startswith("constant"):
        yield from _constant(scenario, mine, quality)
    yield Aim(f"{scenario}: a decision, p95", f"{mine.decision_ms:.1f} ms", "< 10 ms", mine.decision_ms < 10)


def beside(scenario: str, mine: Row, equal: Row | None, best: Row | None) -> Aim:
    """What the best fixed plan of this quality and rate violates, times the factor of the aim, or next to nothing.
    Where there is none, the best of all is printed instead, and it is no aim that could be missed."""
    told = f"{scenario}: violations of {mine.demand} frames, quality {mine.quality:.3f}, {mine.fps:.1f} frames/s"
    if equal is None:
        other = f"{best.violations:.1%}" if best else "none"
        what = f"{told}; no fixed plan is as good and sees as much"
        return Aim(what, f"{mine.violations:.1%}", f"({other})", is_met=True)
    factor = CHANGING if scenario.startswith("stepped") else CONSTANT
    most = max(TELLABLE, factor * equal.violations)
    ratio = f" (ratio {mine.violations / equal.violations:.2f})" if equal.violations else ""
    what = f"{told}; {equal.name}: {equal.violations:.1%}, {equal.quality:.3f}, {equal.fps:.1f}{ratio}"
    return Aim(what, f"{mine.violations:.1%}", f"<= {most:.1%}", mine.violations <= most)


def _constant(scenario: str, mine: Row, quality: float | None) -> Iterator[Aim]:
    if quality is not None:
        what = f"{scenario}: quality with profile, within 2 % of the best fixed in time"
        yield Aim(what, f"{mine.quality:.3f}", f">= {0.98 * quality:.3f}", mine.quality >= 0.98 * quality)
    is_calm = mine.changes_per_min <= 6
    yield Aim(f"{scenario}: plan changes a minute", f"{mine.changes_per_min:.1f}", "<= 6", is_calm)
