"""What the measurements of video compute: a wrong share would be believed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from app.video.model.plan import Plan, Role, StagePlace, VideoConf
from ops.benchmarks.video_case import held_f1
from ops.benchmarks.video_rows import Row, SeenFrame, best_fixed, best_quality, equals, lines, row_of
from tests.harness.link import Line, Pace

HI_S = 0.3
ROW = Row("profile", 240, 0.1, 0.1, 0.2, 24.0, 0.0, 0.0, 0.99, 1.0, 2.0, is_fixed=False)
BOX, OTHER = [[0.1, 0.1, 0.3, 0.3]], [[0.6, 0.6, 0.9, 0.9]]


def _plan(seq: int, nskip: int = 0, resolution: str = "480p") -> Plan:
    return Plan(
        seq,
        VideoConf(resolution, 10.0, nskip),
        {"a": StagePlace(0, Role.HOST, "x"), "b": StagePlace(1, Role.HOST, "x")},
    )


@dataclass
class _Ran:
    plans: Sequence[tuple[float, Plan]]
    frames: Sequence[SeenFrame]
    sent: Sequence[float] = ()
    decisions: Sequence[float] = field(default_factory=list)


class _Graded:
    def __init__(self, fps: float = 10.0) -> None:
        self.fps = fps

    def quality(self, size: str, model: int, nskip: int) -> float:
        assert model == 1, "the worst of the stages counts"
        return {"480p": 0.9, "720p": 1.0}[size] - 0.1 * nskip


def _row(*jobs: _Ran, seconds: float = 10.0, fps: float = 10.0) -> Row:
    return row_of("profile", jobs, _Graded(fps), 100.0, seconds, HI_S, is_fixed=False)


def _seen(
    plan: Plan, numbers: Iterable[int], took_s: Sequence[float] = (), *, phase: float = 0.5, fps: float = 10.0
) -> list[SeenFrame]:
    """Frames of a source that begins at 100 s, in a report for each second.

    Args:
        took_s: of the first of them; the others take 0.1 s.
        phase: of the reports, seconds.
    """
    times = [*took_s, *itertools.repeat(0.1, 1000)]
    captured = [(number, 100 + number / fps) for number in numbers]
    return [
        SeenFrame(number, at, took, math.ceil(at + took - phase) + phase, plan)
        for (number, at), took in zip(captured, times, strict=False)
    ]


def test_frames_that_are_late_and_frames_that_never_came_are_violations() -> None:
    plan = _plan(1)
    numbers = [number for number in range(120) if number % 5]
    row = _row(_Ran([(90.0, plan)], _seen(plan, numbers, [0.5] * 10)))
    assert row.demand == 100
    assert row.violations == pytest.approx(0.3)
    assert row.drops == pytest.approx(0.2)
    assert row.fps == pytest.approx(8.0)
    assert (row.p50_s, row.p95_s) == (0.1, 0.5)


def test_the_demand_is_the_sources_frames_and_those_that_are_left_out_share_the_fate_of_the_one_before() -> None:
    plan = _plan(1, nskip=1)
    row = _row(_Ran([(90.0, plan)], _seen(plan, range(0, 120, 2), [0.1, 0.5])))
    assert row.demand == 100
    assert row.violations == pytest.approx(0.02)
    missing = _row(_Ran([(90.0, plan)], _seen(plan, [*range(0, 50, 2), *range(54, 120, 2)])))
    assert (missing.demand, missing.violations, missing.drops) == (100, pytest.approx(0.04), pytest.approx(0.04))


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
@pytest.mark.parametrize("phase", [0.01, 0.5, 0.99])
def test_when_a_plan_begins_within_a_report_does_not_matter(before: int, after: int, phase: float) -> None:
    one, two = _plan(1, before), _plan(2, after)
    frames = _seen(one, range(0, 61, 1 + before), phase=phase) + _seen(two, range(61, 122, 1 + after), phase=phase)
    mixed = next(frame.reported for frame in frames if frame.plan is two)
    told = [replace(frame, plan=two) if frame.reported == mixed else frame for frame in frames]
    row = _row(_Ran([(90.0, one), (105.0, two)], told))
    assert (row.demand, row.violations) == (100, 0.0)


def test_frames_before_and_after_the_measured_time_do_not_count() -> None:
    plan = _plan(1)
    row = _row(_Ran([(90.0, plan)], _seen(plan, range(-5, 115), [9.0] * 5) + _seen(plan, range(115, 117), [9.0] * 2)))
    assert (row.demand, row.violations, row.p95_s) == (100, 0.0, 0.1)


def test_a_job_that_stops_has_missed_all_frames_since() -> None:
    plan = _plan(1)
    assert _row(_Ran([(90.0, plan)], _seen(plan, range(61)))).drops == pytest.approx(0.4)


def test_frames_that_a_plan_leaves_out_cost_quality() -> None:
    plan = _plan(1, nskip=1)
    assert _row(_Ran([(90.0, plan)], _seen(plan, range(0, 120, 2)))).quality == pytest.approx(0.8)


def test_frames_that_the_source_does_not_have_are_wanted_by_no_plan() -> None:
    plan = replace(_plan(1), video_conf=VideoConf("480p", 24.0))
    row = _row(_Ran([(90.0, plan)], _seen(plan, range(120))))
    assert (row.demand, row.drops, row.quality) == (100, 0.0, pytest.approx(0.9))


def test_frames_that_a_lower_rate_leaves_out_are_demanded_and_cost_quality_like_those_that_are_skipped() -> None:
    plan = _plan(1)
    row = _row(_Ran([(90.0, plan)], _seen(plan, range(120))), fps=20.0)
    assert (row.demand, row.drops, row.quality) == (200, 0.0, pytest.approx(0.8))


def test_a_plan_is_compared_with_those_that_are_as_good_and_see_as_much() -> None:
    mine = replace(ROW, violations=0.04, quality=0.95, fps=12.0)
    fixed = replace(mine, is_fixed=True)
    rows = [
        mine,
        replace(fixed, name="worse", quality=0.9),
        replace(fixed, name="sees less", fps=6.0),
        replace(fixed, name="as good", violations=0.2, quality=0.945, fps=11.8),
    ]
    assert [row.name for row in equals(rows, mine)] == ["as good"]
    (line,) = [line for line in lines({"stepped": rows}, []) if "violations" in line]
    assert "as good: 20.0%, 0.945, 11.8 (ratio 0.20)" in line and "<= 10.0%" in line and line.endswith("   met")
    (line,) = [line for line in lines({"stepped": rows[:3]}, []) if "violations" in line]
    assert "no fixed plan is as good and sees as much" in line and "(4.0%)" in line


def test_each_plan_counts_for_the_frames_it_stands_for_and_changes_for_a_minute() -> None:
    one, two = _plan(1, nskip=1), _plan(2, resolution="1080p")
    frames = _seen(one, range(0, 50, 2)) + _seen(two, range(50, 120))
    row = _row(_Ran([(90.0, one), (105.0, two)], frames))
    assert row.quality == pytest.approx((50 * 0.8 + 50 * 1.0) / 100)
    assert row.changes_per_min == pytest.approx(6.0)


def test_a_job_that_brings_nothing_violates_all() -> None:
    row = _row(_Ran([(90.0, _plan(1))], []))
    assert (row.violations, row.fps, row.quality) == (1.0, 0.0, 0.0)


def test_the_best_fixed_plan_violates_least_and_the_best_quality_is_of_fixed_plans_in_time() -> None:
    rows = [
        replace(ROW, name="a", violations=0.4, quality=1.0, is_fixed=True),
        replace(ROW, name="b", violations=0.02, quality=0.9, is_fixed=True),
        replace(ROW, violations=0.0, quality=0.95),
    ]
    best = best_fixed(rows)
    assert best is not None
    assert best.name == "b"
    assert best_quality(rows) == 0.9
    assert best_quality(rows[:1]) == 1.0
    assert best_quality([ROW]) is None
    assert best_fixed([ROW]) is None


def test_what_is_aimed_at_stands_beside_what_was_measured() -> None:
    fixed = replace(ROW, name="cloud", violations=0.3, is_fixed=True)
    rows = {"stepped": [fixed, ROW], "constant-fast": [replace(fixed, violations=0.05), ROW]}
    told = lines(rows, [("throughput", 0.95)])
    assert any("10.0%" in line and "<= 15.0%" in line and line.endswith("   met") for line in told)
    assert any("violations" in line and "<= 6.5%" in line and line.endswith("not met") for line in told)
    still = lines({"constant-fast": [replace(fixed, violations=0.0), replace(ROW, violations=0.005)]}, [])
    assert any("ratio" not in line and "<= 0.5%" in line and line.endswith("   met") for line in still)
    assert any("changes a minute" in line and "1.0" in line for line in told)
    assert any("throughput" in line and "0.95×" in line for line in told)
    assert lines({"stepped": [fixed]}, [])[1:] == []


def test_boxes_are_held_over_the_frames_that_are_left_out() -> None:
    golden = [BOX, BOX, OTHER, OTHER]
    assert held_f1(golden, golden, 0) == 1.0
    assert held_f1(golden, golden, 1) == 1.0
    assert held_f1(golden, golden, 3) == 0.5


def test_a_line_can_become_another_one() -> None:
    pace = Pace(Line(0.0, 8000.0), 0)
    assert pace.arrival(1000, 0.0) == pytest.approx(1.0)
    pace.become(Line(0.0, 80000.0))
    assert pace.arrival(1000, 2.0) == pytest.approx(2.1)
