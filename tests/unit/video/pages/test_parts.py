"""What the pages of video compute before they draw: wires between stages, places in the picture, changes, plots."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.edge.video.stages.registry import kinds
from app.kit.clock import to_text
from app.kit.web.line_plot import Plot
from app.video.model.constraint import Constraint
from app.video.model.dag import read_dag
from app.video.model.dag_inputs import dag_of, order_stages, wire_inputs
from app.video.model.job import RestartPolicy, VideoJob
from app.video.model.kinds import StageKind
from app.video.pages import dag_layout, job, view_models
from app.video.pages.new_form import constraint_of, edit_stages, example_of, fields_of
from app.video.scheduling.contract import DEFAULT
from app.video.service import SeriesPoint
from tests.harness.video.records import BEGAN, dag, plan, plan_result

FRAMES = "SingleFrameGenerator"
KINDS: dict[str, StageKind] = {
    "faces": kinds()["face_detection"],
    "poses": kinds()["face_alignment"],
    "things": kinds()["detection"],
}


def video_job(**facts: Any) -> VideoJob:
    made = VideoJob(
        "u",
        "local",
        "edge0",
        "0",
        read_dag(dag()),
        (),
        Constraint(),
        "fixed",
        RestartPolicy.NEVER,
        to_text(BEGAN),
    )
    return replace(made, **facts)


def test_stages_that_need_each_other_are_a_list_and_others_a_graph() -> None:
    line = ("faces", "poses")
    assert dag_of(FRAMES, line, wire_inputs(FRAMES, line, KINDS, {}))["flow"] == [FRAMES, *line]
    fork = ("faces", "things")
    made = dag_of(FRAMES, fork, wire_inputs(FRAMES, fork, KINDS, {}))
    assert made["flow"] == {"faces": [FRAMES], "things": [FRAMES]}
    assert made["input"]["Render"] == {"image": "things.image", "count": "things.count_result"}
    assert read_dag(made).before["things"] == frozenset()


def test_stages_are_put_into_an_order_that_can_be_wired() -> None:
    assert order_stages(FRAMES, ["poses", "faces"], KINDS) == ("faces", "poses")
    assert order_stages(FRAMES, ["poses"], KINDS) == ("poses",)


def test_rows_are_added_moved_and_taken_out() -> None:
    rows = ("a", "b")
    assert edit_stages(rows, "add:c") == ("a", "b", "c") and edit_stages(rows, "add:a") == rows
    assert edit_stages(rows, "down:a") == ("b", "a") and edit_stages(rows, "up:a") == rows
    assert edit_stages(rows, "remove:a") == ("b",) and edit_stages(rows, "remove:x") == rows


def test_fields_of_what_a_form_cannot_say_are_none() -> None:
    body = {"node_addr": "n", "video_id": 1, "dag": dag()}
    fields = fields_of(body)
    assert fields is not None and fields["policy"] == DEFAULT and fields["stages"] == "face_detection,face_alignment"
    for wrong in ({"dag": {}}, {"user_constraint": {"delay": "x"}}, {"user_constraint": {"accuracy": 0.33}}):
        assert fields_of({**body, **wrong}) is None


@pytest.mark.parametrize(
    ("lo", "hi", "level", "constraint", "problems"),
    [
        ("", "0.3", "2", {"delay": 0.3, "acc_level": 2}, {}),
        ("0.1", "0.3", "x", {"delay": [0.1, 0.3]}, {"acc_level": ""}),
        ("", "soon", "2", {"acc_level": 2}, {"delay_hi": ""}),
        ("", "0", "2", {"acc_level": 2}, {"delay_hi": ""}),
        ("soon", "0.3", "2", {"acc_level": 2}, {"delay_lo": ""}),
        ("0.3", "0.3", "2", {"acc_level": 2}, {"delay_lo": "order"}),
    ],
)
def test_a_wrong_delay_is_a_problem_of_its_field_and_not_sent(
    lo: str, hi: str, level: str, constraint: dict[str, Any], problems: dict[str, str]
) -> None:
    assert constraint_of({"delay_lo": lo, "delay_hi": hi, "acc_level": level}) == (constraint, problems)


def test_parts_stand_in_lanes_and_columns_without_lying_on_each_other() -> None:
    fork = ("faces", "things")
    made = read_dag(dag_of(FRAMES, fork, wire_inputs(FRAMES, fork, KINDS, {})))
    drawn = dag_layout.draw(made, {"things": view_models.CLOUD}, {}, {"things": "59 ms"})
    boxes = {box.name: box for box in drawn.boxes}
    assert boxes["faces"].x == boxes["things"].x < boxes["Render"].x
    top = next(lane for lane in drawn.lanes if lane.name == view_models.CLOUD).y
    assert boxes["things"].y > top > boxes["faces"].y
    assert sorted(arrow.is_far for arrow in drawn.arrows) == [False, True, True]
    (labelled,) = (arrow for arrow in drawn.arrows if arrow.label)
    assert labelled.label == "59 ms" and labelled.x < boxes["things"].x
    assert max(box.x for box in drawn.boxes) + drawn.box_width <= drawn.width >= dag_layout.WIDTH - len(drawn.boxes)
    together = {box.name: box for box in dag_layout.draw(made, {}, {}).boxes}
    assert together["things"].y >= together["faces"].y + dag_layout.BOX_HEIGHT


def test_only_what_can_be_read_at_a_glance_is_a_number_of_the_frame() -> None:
    numbers = {"n_loop": 3, "e2e": 0.1, "up": 2, "plate": "AB", "bbox": [[1, 2, 3, 4]]}
    assert view_models.view_of(video_job(results=(numbers,))).counts == {"up": 2, "plate": "AB"}


def test_the_example_is_made_of_the_stages_that_there_are() -> None:
    assert example_of(KINDS) == ("faces", "poses") and example_of({"poses": KINDS["poses"]}) == ()


def test_the_time_of_a_stage_is_split_into_computing_waiting_and_way() -> None:
    first, second = view_models.bars_of(plan_result())
    assert (first.stage, first.computing, first.queue, round(first.way, 6)) == ("face_detection", 0.11, 0.002, 0.008)
    assert (round(sum(first.shares)), round(sum(second.shares))) == (100, 75)
    (alone,) = view_models.bars_of({"delay": {"a": 0.5, "b": None}})
    assert alone.computing is None and alone.shares == (100.0, 0.0, 0.0)
    assert view_models.bars_of({"delay": "soon"}) == ()


def test_places_delays_and_quality_are_of_the_same_plan() -> None:
    made = video_job(plan=replace(plan(), seq=7), plan_result={**plan_result(), "plan_seq": 7})
    assert view_models.view_of(made).bars and view_models.view_of(made).figures.p50 is not None
    before = view_models.view_of(replace(made, plan_result={**plan_result(), "plan_seq": 6}))
    assert before.placed and not before.bars
    assert (before.figures.p50, before.figures.quality) == (None, None)


def test_a_plot_needs_two_points_that_say_something() -> None:
    point = SeriesPoint(to_text(BEGAN), plan_result(), plan().to_json(), 0.8)
    assert job.delay_plot([]) is None and job.delay_plot([point]) is None
    silent = SeriesPoint(to_text(BEGAN), {}, None, 0.8)
    assert job.delay_plot([silent, silent]) is job.fps_plot([silent, silent], 12.0) is None
    assert job.quality_plot([silent, silent]) is None
    drawn = job.delay_plot([point, silent, point])
    assert drawn is not None and [kind for kind, _ in drawn.lines] == ["hi", "p50", "p95"] and not drawn.is_cut
    assert dict(drawn.lines)["p50"].count("M") == 2


def test_neither_a_peak_nor_a_far_limit_flattens_the_plot_of_delays() -> None:
    def drawn(delays: list[float], hi: float) -> Plot:
        points = [
            SeriesPoint(to_text(BEGAN + timedelta(seconds=at)), {"e2e_p50": delay, "e2e_p95": delay}, None, hi)
            for at, delay in enumerate(delays)
        ]
        plot = job.delay_plot(points)
        assert plot is not None
        return plot

    far = drawn([0.02] * 20, 0.8)
    assert [kind for kind, _ in far.lines] == ["p50", "p95"] and far.y_ticks[-1][1] == "20"
    peak = drawn([0.7, *[0.02] * 20], 0.05)
    assert peak.is_cut and float(peak.y_ticks[-1][1]) <= 100 and peak.lines[0][0] == "hi"


def test_no_more_is_planned_than_the_source_gives_and_nothing_while_its_rate_is_not_known() -> None:
    made = plan()
    skipping = replace(made, video_conf=replace(made.video_conf, fps=24.0, nskip=1, ntracking=0))
    points = [
        SeriesPoint(to_text(BEGAN + timedelta(seconds=at)), {"fps": 6.0}, skipping.to_json(), 0.8) for at in (0, 2)
    ]
    unknown, known = job.fps_plot(points, None), job.fps_plot(points, 12.0)
    assert unknown is not None and unknown.kinds == {"fps"}
    assert known is not None and known.kinds == {"wanted", "fps"}
    assert dict(known.lines)["wanted"] == dict(known.lines)["fps"], "of 12 frames each other one is planned"
    assert view_models.view_of(video_job(plan=made)).source_fps is None
    assert view_models.view_of(video_job(plan=made, generator_output={"fps": 12.0})).source_fps == 12.0


def test_a_job_is_late_where_a_time_was_asked_for() -> None:
    def late(**facts: Any) -> bool:
        return view_models.figures_of(video_job(plan_result={"delay": {}, "e2e_p50": 2.0}, **facts)).is_late

    assert late() and late(realtime=False, constraint=Constraint(hi=1.0))
    assert not late(realtime=False)
