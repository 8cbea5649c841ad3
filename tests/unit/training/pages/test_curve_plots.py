"""Which curves are drawn first, and over what."""

from __future__ import annotations

import json
from collections.abc import Mapping

from app.training.model.learning_curve import Curve, LearningCurves
from app.training.pages.metrics import OVERVIEW, OVERVIEW_MOST, curve_plots, groups_of


def told(*rows: Mapping[str, object]) -> Mapping[str, Curve]:
    read = LearningCurves()
    read.feed(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return read.curves


MANY = told(*({"step": step, **{f"timing_s/t{n}": n for n in range(20)}, "loss": 1 / step} for step in (1, 2, 3)))


def test_many_curves_are_grouped_and_the_loss_comes_first() -> None:
    assert groups_of(MANY) == [OVERVIEW, "timing_s"]
    overview = curve_plots([MANY], OVERVIEW)
    assert len(overview) == OVERVIEW_MOST
    assert overview[0].name == "loss"
    assert len(curve_plots([MANY], "timing_s")) == 20


def test_few_curves_need_no_groups() -> None:
    assert groups_of(told({"step": 1, "a/b": 1})) == [OVERVIEW]


def test_another_tasks_curve_is_drawn_beside_it_and_one_that_it_alone_has_is_not() -> None:
    own = told({"step": 1, "loss": 3}, {"step": 2, "loss": 2})
    other = told({"step": 1, "loss": 4}, {"step": 9, "loss": 1}, {"step": 9, "reward": 1})
    (plot,) = curve_plots([own, other], OVERVIEW)
    assert [line.kind for line in plot.plot.lines] == ["task-0", "task-1"]
    assert plot.last.value == 2


def test_over_time_what_tells_none_is_left_out() -> None:
    timed = told({"step": 1, "time": 0, "loss": 3}, {"step": 2, "time": 600, "loss": 2})
    (plot,) = curve_plots([timed], OVERVIEW, by_time=True)
    assert plot.unit == "min"
    assert curve_plots([told({"step": 1, "loss": 3})], OVERVIEW, by_time=True) == []


def test_a_level_curve_and_a_single_point_can_be_drawn() -> None:
    (level,) = curve_plots([told({"step": 1, "loss": 2}, {"step": 2, "loss": 2})], OVERVIEW)
    (single,) = curve_plots([told({"step": 1, "loss": 0})], OVERVIEW)
    assert level.plot.lines[0].path
    assert single.plot.lines[0].path


def test_a_plot_without_paths_has_the_values_of_its_lines() -> None:
    told_twice = told({"step": 1, "loss": 3}, {"step": 2, "loss": 2})
    (plot,) = curve_plots([told_twice], OVERVIEW, has_paths=False)
    assert [(line.kind, line.path) for line in plot.plot.lines] == [("task-0", "")]
    assert json.loads(plot.plot.data)["y"] == [[3, 2]]


def test_the_best_value_is_marked() -> None:
    (plot,) = curve_plots([told({"step": 1, "loss": 3}, {"step": 2, "loss": 1}, {"step": 3, "loss": 2})], OVERVIEW)
    assert plot.best is not None
    assert plot.best.step == 2
    assert [dot.kind for dot in plot.plot.dots] == ["best"]
