"""What the measurements of video compute: a wrong share would be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from app.video.model.plan import Plan, Role, StagePlace, VideoConf
from ops.benchmarks.video_case import held_f1
from ops.benchmarks.video_rows import Row, best_fixed, best_quality, equals, lines, row_of
from tests.harness.link import Line, Pace

HI_S = 0.3
ROW = Row("profile", 0.1, 0.1, 0.2, 24.0, 0.0, 0.0, 0.99, 1.0, 2.0, is_fixed=False)
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
    frames: Sequence[tuple[float, float, Plan]]
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


def _reports(plan: Plan, a_second: int, took: Sequence[float] = (), first: float = 100.5) -> list[Any]:
    """So many frames in each of eleven reports. took: of the first frames after the first report, else 0.1 s."""
    times = [0.1] * a_second + [*took, *[0.1] * (10 * a_second - len(took))]
    return [(first + number // a_second, took, plan) for number, took in enumerate(times)]


def test_frames_that_are_late_and_frames_that_never_came_are_violations() -> None:
    plan = _plan(1)
    row = _row(_Ran([(90.0, plan)], _reports(plan, 8, [0.5] * 10)))
    assert row.violations == pytest.approx(0.3)
    assert row.drops == pytest.approx(0.2)
    assert row.fps == pytest.approx(8.0)
    assert (row.p50_s, row.p95_s) == (0.1, 0.5)


def test_a_plan_wants_frames_once_its_runner_processes_some_by_it() -> None:
    """Its models are opened before."""
    slow, fast = _plan(1, nskip=1), _plan(2)
    frames = [*_reports(slow, 5)[: 5 * 6], *_reports(fast, 10, first=106.5)]
    assert _row(_Ran([(90.0, slow), (101.0, fast)], frames)).drops == pytest.approx(0.0)


def test_frames_before_and_after_the_measured_time_do_not_count() -> None:
    plan = _plan(1)
    row = _row(_Ran([(90.0, plan)], [(99.9, 9.0, plan), *_reports(plan, 10), (111.5, 9.0, plan)]))
    assert (row.violations, row.p95_s) == (0.0, 0.1)


@pytest.mark.parametrize("first", [100.01, 100.5, 100.99])
def test_when_a_runner_reports_does_not_matter(first: float) -> None:
    plan = _plan(1)
    assert _row(_Ran([(90.0, plan)], _reports(plan, 10, first=first))).violations == pytest.approx(0.0)


def test_a_job_that_stops_has_missed_all_frames_since() -> None:
    plan = _plan(1)
    frames = [one for one in _reports(plan, 10) if one[0] < 106]
    assert _row(_Ran([(90.0, plan)], frames)).drops == pytest.approx(4.5 / 9.5)


def test_frames_that_a_plan_leaves_out_are_not_missing_but_cost_quality() -> None:
    plan = _plan(1, nskip=1)
    row = _row(_Ran([(90.0, plan)], _reports(plan, 5)))
    assert row.drops == pytest.approx(0.0)
    assert row.quality == pytest.approx(0.8)


def test_frames_that_the_source_does_not_have_are_wanted_by_no_plan() -> None:
    plan = replace(_plan(1), video_conf=VideoConf("480p", 24.0))
    row = _row(_Ran([(90.0, plan)], _reports(plan, 10)))
    assert (row.drops, row.quality) == (pytest.approx(0.0), pytest.approx(0.9))


def test_frames_that_a_lower_rate_leaves_out_cost_quality_like_those_that_are_skipped() -> None:
    plan = _plan(1)
    row = _row(_Ran([(90.0, plan)], _reports(plan, 10)), fps=20.0)
    assert (row.drops, row.quality) == (pytest.approx(0.0), pytest.approx(0.8))


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
    assert "of its equals as good has 20.0%" in line and "<= 10.0%" in line and line.endswith("   met")
    (line,) = [line for line in lines({"stepped": rows[:3]}, []) if "violations" in line]
    assert "no fixed plan is as good and sees as much" in line and "(4.0%)" in line


def test_each_plan_counts_for_the_frames_it_stands_for_and_changes_for_a_minute() -> None:
    one, two = _plan(1, nskip=1), _plan(2, resolution="1080p")
    frames = [(100.0, 0.1, one), (101.0, 0.1, one), (102.0, 0.1, two), (103.0, 0.1, two)]
    row = _row(_Ran([(90.0, one), (105.0, two)], frames))
    assert row.quality == pytest.approx((2 * 0.8 + 2 * 1.0) / 4)
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
    told = lines({"stepped": [fixed, ROW], "constant-fast": [fixed, ROW]}, [("throughput", 0.95)])
    assert any("10.0%" in line and "<= 15.0%" in line and line.endswith("   met") for line in told)
    assert any("violations" in line and "<= 5.0%" in line and line.endswith("not met") for line in told)
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
