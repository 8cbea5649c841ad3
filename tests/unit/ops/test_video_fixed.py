"""Which fixed plans the measurements of video compare the policies with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.video.scheduling.contract import DagInfo, Measured
from ops.benchmarks.video_fixed import CLOUD, EDGE, FixedPlan, worth_measuring
from tests.harness.link import Line

FAST, SLOW = Line(rtt_s=0.02, bits_per_s=20e6), Line(rtt_s=0.02, bits_per_s=0.5e6)
SIZES = {"240p": (0.010, 8000, 0.8), "480p": (0.030, 25000, 0.95), "720p": (0.060, 60000, 1.0)}
"""Of the big model: seconds, bytes, quality. The middle one takes half, and is worth a tenth less."""
FACTS: Any = {"kind": "face_detection", "n_models": 2, "pictures": True, "before": []}
DAG: DagInfo = {"generator": "g", "flow": ["g", "a"], "input": {"a": {"image": "g.image"}}, "stages": {"a": FACTS}}


def rows(slower: float = 1.0) -> list[Measured]:
    return [
        Measured(
            node=node,
            stage="a",
            model_id=model,
            resolution=size,
            delay_s=seconds * slower / (1 + model),
            bytes=weight,
            quality=quality - 0.1 * model,
        )
        for node in (EDGE, CLOUD)
        for model in (0, 1)
        for size, (seconds, weight, quality) in SIZES.items()
    ]


def chosen(*steps: Line, slower: float = 1.0, **more: Any) -> list[FixedPlan]:
    given = {"fps": 12.0, "hi_s": 0.3, "jobs": 1, "is_busy": False, "most": 5, **more}
    return worth_measuring(DAG, rows(slower), list(SIZES), steps, **given)


def test_on_a_fast_link_the_best_leaves_nothing_out_at_full_size() -> None:
    best = chosen(FAST)[0]
    assert (best.conf.resolution, best.conf.nskip, best.conf.fps, best.places["a"][1]) == ("720p", 0, 12.0, 0)


def test_the_lightest_at_each_place_of_those_that_equal_the_policy_come_first() -> None:
    plans = chosen(SLOW, most=0, is_equal=lambda plan: plan.conf.resolution != "240p" and plan.conf.nskip < 2)
    assert [plan.name for plan in plans] == ["edge 480p middle 1/2", "cloud 480p middle 1/2 H264"]
    assert chosen(SLOW, most=0) == []


def test_where_the_edge_is_too_slow_for_each_frame_plans_leave_some_out_or_are_smaller() -> None:
    plans = [plan for plan in chosen(SLOW, slower=4.0) if plan.is_link_free]
    assert plans and all(plan.conf.nskip or plan.conf.resolution != "720p" or plan.places["a"][1] for plan in plans)


def test_a_link_that_becomes_slow_is_known_beforehand_and_what_fits_its_begin_alone_comes_later() -> None:
    plans = chosen(FAST, SLOW, FAST, slower=2.0)
    assert plans[0].is_link_free or plans[0].conf.resolution == "240p"
    assert any(not plan.is_link_free for plan in plans)


@pytest.mark.parametrize("more", [{"jobs": 4}, {"is_busy": True}])
def test_more_jobs_and_a_busy_edge_leave_less_to_each(more: dict[str, Any]) -> None:
    alone, beside = (chosen(SLOW, slower=2.5, **given)[0] for given in ({}, more))
    assert (alone.conf.nskip, alone.conf.resolution, alone.places) != (
        beside.conf.nskip,
        beside.conf.resolution,
        beside.places,
    )


def test_names_differ_and_there_are_no_more_than_are_asked_for() -> None:
    plans = chosen(FAST, SLOW, FAST, most=3)
    assert len({plan.name for plan in plans}) == len(plans) == 3


def test_a_plan_names_its_nodes_as_they_are_reached() -> None:
    fixed = replace(chosen(FAST)[0], places={"a": (CLOUD, 1)})
    place = fixed.plan({CLOUD: "127.0.0.1:5"}).flow_mapping["a"]
    assert (place.node, place.node_ip, place.node_role.value, place.model_id) == (CLOUD, "127.0.0.1:5", "cloud", 1)
