"""What the measurements of video compute and print: a row for each policy, and beside the aims what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.video.model.plan import Plan
from tests.harness.deployment import percentile

WIDTH = 26
LATE_REPORT_S = 1.2
IN_TIME = 0.05
"""The share of violations up to which a plan satisfies the constraint."""
AS_GOOD, AS_MANY = 0.01, 0.95
"""Qualities with at most this difference, and rates with at least this ratio, count as equal."""


class Ran(Protocol):
    """See ops.benchmarks.video_nodes.Job."""

    @property
    def plans(self) -> Sequence[tuple[float, Plan]]: ...
    @property
    def frames(self) -> Sequence[tuple[float, float, Plan]]: ...
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
    """violations: share of the frames that the plan wanted processed, and that came too late or not at all; drops:
    those that did not come. fps: frames a second that a job has looked at; quality: F1 of what the plans look at, where
    a frame that is left out keeps the boxes of the one before."""

    name: str
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
            f"{self.name:{WIDTH}}{self.violations:>10.1%}{self.p50_s * 1000:>8.0f} ms{self.p95_s * 1000:>8.0f} ms"
            f"{self.fps:>7.1f}{self.drops:>8.1%}{self.bytes_up:>11,.0f}{self.quality:>9.3f}{self.changes_per_min:>9.1f}"
            f"{self.decision_ms:>8.1f} ms"
        )


def titled() -> str:
    return (
        f"{'':{WIDTH}}{'violated':>10}{'p50':>11}{'p95':>11}{'seen/s':>7}{'drops':>8}{'bytes up':>11}{'quality':>9}"
        f"{'changes':>9}{'decided':>11}"
    )


def row_of(
    name: str, jobs: Sequence[Ran], case: Graded, began: float, seconds: float, hi_s: float, *, is_fixed: bool
) -> Row:
    """began: of measuring, by the same clock as the jobs' times. Runners report once a second: frames are counted from
    a job's first report after the begin to its first after the end, and so are those that were wanted."""
    ended = began + seconds
    spans = [_span(job, began, ended) for job in jobs]
    frames = [
        (took, plan)
        for job, (first, last) in zip(jobs, spans, strict=True)
        for at, took, plan in job.frames
        if first < at <= last
    ]
    due = max(1.0, sum(_wanted(_in_force(job), case.fps, *span) for job, span in zip(jobs, spans, strict=True)))
    late, missing = sum(took > hi_s for took, _ in frames), max(0.0, due - len(frames))
    times = sorted(took for took, _ in frames) or [float("inf")]
    changes = sum(1 for job in jobs for at, _ in job.plans if began < at <= ended)
    decisions = [took for job in jobs for took in job.decisions]
    lasted = sum(last - first for first, last in spans)
    sent = [size for job in jobs for size in job.sent]
    return Row(
        name,
        min(1.0, (late + missing) / due),
        percentile(times, 0.5),
        percentile(times, 0.95),
        len(frames) / lasted,
        missing / due,
        sum(sent) / len(sent) if sent else 0.0,
        _quality([plan for _, plan in frames], case),
        changes * 60 / seconds / len(jobs),
        percentile(sorted(decisions), 0.95) if decisions else 0.0,
        is_fixed,
    )


def _span(job: Ran, began: float, ended: float) -> tuple[float, float]:
    """Returns the span of the reports; of a job that does not report in time, the requested times."""
    times = [at for at, _, _ in job.frames]
    first, last = (
        min((at for at in times if edge <= at <= edge + LATE_REPORT_S), default=edge) for edge in (began, ended)
    )
    return first, last


def _in_force(job: Ran) -> Sequence[tuple[float, Plan]]:
    """Returns the plans and when each began according to the reports: a new plan waits until its models are open."""
    begun: list[tuple[float, Plan]] = []
    reported_at = 0.0
    for at, _, plan in job.frames:
        if not begun:
            begun.append((at, plan))
        elif begun[-1][1].seq != plan.seq:
            begun.append((reported_at, plan))
        reported_at = at
    return begun or job.plans


def _wanted(plans: Sequence[tuple[float, Plan]], fps: float, began: float, ended: float) -> float:
    """Returns the frames that the plans meant to process, for a source with this rate."""
    ends = [at for at, _ in plans[1:]] + [ended]
    return sum(
        max(0.0, min(end, ended) - max(at, began)) * fps / _cycle(plan, fps)
        for (at, plan), end in zip(plans, ends, strict=True)
    )


def _cycle(plan: Plan, fps: float) -> float:
    """Returns the number of source frames for each processed one."""
    conf = plan.video_conf
    return (1 + conf.nskip + conf.ntracking) * max(1.0, fps / conf.fps)


def _quality(plans: Sequence[Plan], case: Graded) -> float:
    """Returns the quality; each frame also represents the omitted ones after it."""
    weights = [_cycle(plan, case.fps) for plan in plans]
    graded = [
        case.quality(
            min(plan.video_conf.resolution, "720p", key=lambda size: int(size[:-1])),
            max(place.model_id for place in plan.flow_mapping.values()),
            round(weight) - 1,
        )
        * weight
        for plan, weight in zip(plans, weights, strict=True)
    ]
    return sum(graded) / sum(weights) if weights else 0.0


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
        return f"{self.what:84} {self.measured:>12} {self.aim:>12}   {'met' if self.is_met else 'not met'}"


def lines(rows_by_policy: Mapping[str, Sequence[Row]], shares: Sequence[tuple[str, float]]) -> list[str]:
    """Returns the measurements beside the aims."""
    aims = [aim for scenario, rows in rows_by_policy.items() for aim in _aims(scenario, rows)]
    aims += [Aim(what, f"{share:.2f}×", ">= 0.90×", share >= 0.9) for what, share in shares]
    return [f"\n{'':84} {'measured':>12} {'aim':>12}", *(str(aim) for aim in aims)]


def _aims(scenario: str, rows: Sequence[Row]) -> Iterator[Aim]:
    mine = next((row for row in rows if row.name == "profile"), None)
    if mine is None:
        return
    quality = best_quality(rows)
    if not scenario.startswith("constant"):
        yield _beside(scenario, mine, best_fixed(equals(rows, mine)), best_fixed(rows))
    if scenario.startswith("constant"):
        yield from _constant(scenario, mine, quality)
    yield Aim(f"{scenario}: a decision, p95", f"{mine.decision_ms:.1f} ms", "< 10 ms", mine.decision_ms < 10)


def _beside(scenario: str, mine: Row, equal: Row | None, best: Row | None) -> Aim:
    """Half of what the best fixed plan of this quality and rate violates, or next to nothing. Where there is none, the
    best of all stands there, and it is no aim that could be missed."""
    if equal is None:
        other = f"{best.violations:.1%}" if best else "none"
        what = f"{scenario}: violations with profile; no fixed plan is as good and sees as much"
        return Aim(what, f"{mine.violations:.1%}", f"({other})", is_met=True)
    most = max(IN_TIME, equal.violations / 2)
    what = f"{scenario}: violations with profile, of its equals {equal.name} has {equal.violations:.1%}"
    return Aim(what, f"{mine.violations:.1%}", f"<= {most:.1%}", mine.violations <= most)


def _constant(scenario: str, mine: Row, quality: float | None) -> Iterator[Aim]:
    if quality is not None:
        what = f"{scenario}: quality with profile, within 2 % of the best fixed in time"
        yield Aim(what, f"{mine.quality:.3f}", f">= {0.98 * quality:.3f}", mine.quality >= 0.98 * quality)
    what, is_kept = f"{scenario}: violations with profile", mine.violations <= IN_TIME
    yield Aim(what, f"{mine.violations:.1%}", f"<= {IN_TIME:.1%}", is_kept)
    is_calm = mine.changes_per_min <= 6
    yield Aim(f"{scenario}: plan changes a minute", f"{mine.changes_per_min:.1f}", "<= 6", is_calm)
