"""Key points of a stage on their way through the runner."""

from __future__ import annotations

from typing import Any

import pytest

from app.edge.video.runner.frame_context import DagRequirements, FrameFailed, FrameOutcome, needs_of
from app.edge.video.runner.object_details import carry_details, details_of
from app.edge.video.runner.quality import score_stage
from app.edge.video.runner.resize import scale_values
from app.edge.video.runner.stage_outputs import read_outputs
from app.edge.video.stages.registry import kinds
from app.video.model.dag import Reference, read_dag
from app.video.model.kinds import Metric
from app.video.model.plan import Plan, VideoConf

STAGE = "detection"
DAG = {
    "generator": "SingleFrameGenerator",
    "flow": ["SingleFrameGenerator", STAGE],
    "input": {
        STAGE: {"image": "SingleFrameGenerator.image"},
        "Render": {"image": f"{STAGE}.image", "count": f"{STAGE}.count_result"},
    },
}
BOX, POINTS = [10.0, 20.0, 30.0, 60.0], [[12.0, 24.0, 0.9], [20.0, 40.0, 0.1]]


def needs() -> DagRequirements:
    return needs_of(read_dag(DAG), {STAGE: kinds()[STAGE]})


def outcome(**values: Any) -> FrameOutcome:
    plan = Plan(0, VideoConf(), {}, "")
    return FrameOutcome(plan, (64, 64), {Reference(STAGE, name): value for name, value in values.items()}, {})


def test_a_row_has_key_points_in_pixels_of_the_source() -> None:
    detected = outcome(bbox=[BOX], prob=[0.9], label=["person"], keypoints=[POINTS])
    assert details_of(needs(), detected, (2.0, 3.0), (100, 10)) == {
        "scores": [0.9],
        "labels": ["person"],
        "keypoints": [[[124.0, 82.0, 0.9], [140.0, 130.0, 0.1]]],
    }
    for boxes, points in (([], []), ([BOX], [])):
        assert "keypoints" not in details_of(needs(), outcome(bbox=boxes, keypoints=points), (1.0, 1.0), (0, 0))


def test_key_points_go_with_their_box_while_it_is_tracked() -> None:
    detected = outcome(bbox=[BOX], keypoints=[POINTS])
    later = carry_details(needs(), detected, [[15.0, 19.0, 35.0, 59.0]])
    assert later.values[Reference(STAGE, "bbox")] == [[15.0, 19.0, 35.0, 59.0]]
    assert later.values[Reference(STAGE, "keypoints")] == [[[17.0, 23.0, 0.9], [25.0, 39.0, 0.1]]]
    assert detected.values[Reference(STAGE, "keypoints")] == [POINTS]
    assert details_of(needs(), carry_details(needs(), outcome(bbox=[BOX]), [BOX]), (1.0, 1.0), (0, 0)) == {}


def test_they_are_requested_with_the_boxes_and_scaled_with_them() -> None:
    assert "keypoints" in needs().outputs[STAGE]
    scaled = scale_values({"bbox": [BOX], "keypoints": [POINTS], "prob": [0.9]}, kinds()[STAGE].outputs, (2.0, 0.5))
    assert scaled["keypoints"] == [[[24.0, 12.0, 0.9], [40.0, 20.0, 0.1]]] and scaled["prob"] == [0.9]


def test_masks_go_the_same_way() -> None:
    mask = [[12.0, 24.0, 20.0, 24.0, 20.0, 40.0]]
    detected = outcome(bbox=[BOX], masks=[mask])
    assert details_of(needs(), detected, (2.0, 3.0), (100, 10))["masks"] == [[[124, 82, 140, 82, 140, 130]]]
    later = carry_details(needs(), detected, [[15.0, 19.0, 35.0, 59.0]])
    assert later.values[Reference(STAGE, "masks")] == [[[17, 23, 25, 23, 25, 39]]]
    scaled = scale_values({"masks": [mask]}, kinds()[STAGE].outputs, (2.0, 0.5))
    assert scaled["masks"] == [[[24, 12, 40, 12, 40, 20]]] and "masks" in needs().outputs[STAGE]
    small, half = outcome(bbox=[[5, 10, 15, 30]], masks=[[[6, 12, 10, 12, 10, 20]]]), outcome(bbox=[BOX], masks=[mask])
    assert score_stage(needs(), STAGE, small.values, half.values, (2.0, 2.0)) == (
        Metric.IOU,
        pytest.approx(1, abs=0.02),
    )
    other = outcome(bbox=[BOX], masks=[[[12, 24, 20, 40, 12, 40]]])
    (_, quality) = score_stage(needs(), STAGE, other.values, half.values, (1.0, 1.0)) or (None, 1.0)
    assert quality < 0.1


@pytest.mark.parametrize("odd", ["x", [[1]], [[[1, 2, 3, 4]]], [[[1, 2, 3, 4, 5]]], [[[1, 2, 3, 4, 5, "6"]]], [None]])
def test_what_is_no_masks_is_a_fault_of_the_stage(odd: Any) -> None:
    with pytest.raises(FrameFailed, match="masks of its answer are no masks"):
        read_outputs(STAGE, kinds()[STAGE], {"masks"}, {"masks": odd})


def test_a_stage_may_lack_what_depends_on_its_model_and_nothing_else() -> None:
    kind = kinds()[STAGE]
    assert read_outputs(STAGE, kind, {"bbox", "keypoints"}, {"bbox": [BOX]}) == {"bbox": [BOX], "keypoints": []}
    with pytest.raises(FrameFailed, match="its answer has no bbox"):
        read_outputs(STAGE, kind, {"bbox", "keypoints"}, {"keypoints": [POINTS]})


@pytest.mark.parametrize("odd", ["x", [[1]], [[[1, 2]]], [[[1, 2, "3"]]], [None]])
def test_what_is_no_key_points_is_a_fault_of_the_stage(odd: Any) -> None:
    with pytest.raises(FrameFailed, match="keypoints of its answer are no key points"):
        read_outputs(STAGE, kinds()[STAGE], {"keypoints"}, {"keypoints": odd})


def test_a_plan_is_as_good_as_its_key_points_are_alike() -> None:
    golden = outcome(bbox=[BOX], keypoints=[POINTS]).values
    half = outcome(bbox=[[5, 10, 15, 30]], keypoints=[[[6, 12, 0.9], [1, 1, 0.1]]]).values
    far = outcome(bbox=[[5, 10, 15, 30]], keypoints=[[[15, 30, 0.9], [1, 1, 0.1]]]).values
    assert score_stage(needs(), STAGE, half, golden, (2.0, 2.0)) == (Metric.IOU, pytest.approx(1))
    (_, quality) = score_stage(needs(), STAGE, far, golden, (2.0, 2.0)) or (None, 1.0)
    assert 0 < quality < 0.5
    plain = outcome(bbox=[BOX]).values
    assert score_stage(needs(), STAGE, plain, golden, (1.0, 1.0)) == (Metric.IOU, 1.0), "a model without key points"


def test_boxes_of_a_kind_without_labels_are_of_the_class_that_it_names() -> None:
    stage = "face_detection"
    dag = {
        "generator": "SingleFrameGenerator",
        "flow": ["SingleFrameGenerator", stage],
        "input": {
            stage: {"image": "SingleFrameGenerator.image"},
            "Render": {"image": "SingleFrameGenerator.image", "count": f"{stage}.count_result"},
        },
    }
    values = {Reference(stage, "bbox"): [BOX, BOX], Reference(stage, "prob"): [0.9, 0.8]}
    detected = FrameOutcome(Plan(0, VideoConf(), {}, ""), (64, 64), values, {})
    row = details_of(needs_of(read_dag(dag), {stage: kinds()[stage]}), detected, (1.0, 1.0), (0, 0))
    assert row == {"labels": ["face", "face"], "scores": [0.9, 0.8]}
