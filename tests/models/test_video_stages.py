"""Kinds of stages on real models and clips, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from app.edge.video.stages.base import ModelFile, Stage
from app.edge.video.stages.registry import stage_class
from app.inference.errors import ModelUnusable
from app.inference.model_card import Format, ModelCard
from app.inference.prediction import Picture
from app.inference.sources.factory import open_source
from app.kit.errors import BadRequest
from app.video.errors import BadStage
from tests.harness.paths import SHARED_DATA

GREY = np.full((90, 120, 3), 127, np.uint8)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_data")]


def opened(kind: str, *models: str, **parameters: str) -> Stage:
    return _opened(kind, models, tuple(parameters.items()))


@cache
def _opened(kind: str, models: tuple[str, ...], parameters: tuple[tuple[str, str], ...]) -> Stage:
    files = []
    for name in models:
        path = SHARED_DATA / "models" / f"{name}.onnx"
        files.append(ModelFile(ModelCard(name, Format.ONNX, "0" * 64, path.stat().st_size), path))
    return stage_class(kind)(files, dict(parameters))


@cache
def clip(name: str) -> Sequence[Picture]:
    return [frame.picture for frame in open_source(str(SHARED_DATA / "video" / f"{name}.mp4"))]


def test_the_classroom_has_four_faces() -> None:
    stage = opened("face_detection", "face_rfb_640")
    frames = clip("classroom-270p")[::10]
    answers = [stage.run({"image": frame}) for frame in frames]
    assert sum(len(each["bbox"]) == 4 for each in answers) >= 0.95 * len(frames)
    for each in answers:
        assert len(each["prob"]) == len(each["bbox"]) == each["count_result"]["total"]
        assert all(0 <= x1 < x2 <= 480 and 0 <= y1 < y2 <= 270 for x1, y1, x2, y2 in each["bbox"])
    assert stage.runtime.startswith("onnxruntime")


def test_a_threshold_leaves_faces_out() -> None:
    frame = clip("classroom-270p")[0]
    few, many = (
        opened("face_detection", "face_rfb_320", score_threshold=threshold).run({"image": frame})
        for threshold in ("0.95", "0.3")
    )
    assert len(few["bbox"]) < len(many["bbox"])
    assert min(few["prob"]) >= 0.95 > min(many["prob"])


@pytest.mark.parametrize(
    "models", [("headpose_fsanet_1x1", "headpose_fsanet_var"), ("headpose_fsanet_1x1",), ("headpose_fsanet_var",)]
)
def test_each_face_has_a_pose(models: tuple[str, ...]) -> None:
    frame = clip("classroom-270p")[0]
    faces = opened("face_detection", "face_rfb_640").run({"image": frame})
    inputs = {"image": frame, "bbox": faces["bbox"], "prob": faces["prob"]}
    stage = opened("face_alignment", *models)
    poses = stage.run(inputs)
    assert np.shape(poses["head_pose"]) == (4, 3)
    assert poses["count_result"] == {"up": sum(pose[1] > -10 for pose in poses["head_pose"]), "total": 4}
    drawn = stage.draw(frame, inputs, poses)
    assert drawn.shape == frame.shape
    assert (drawn != frame).any()


def test_two_models_are_their_mean() -> None:
    frame = clip("headpose-female-270p")[0]
    inputs = {"image": frame, "bbox": opened("face_detection", "face_rfb_640").run({"image": frame})["bbox"]}
    one, other, both = (
        np.array(opened("face_alignment", *names).run(inputs)["head_pose"])
        for names in (
            ("headpose_fsanet_1x1",),
            ("headpose_fsanet_var",),
            ("headpose_fsanet_1x1", "headpose_fsanet_var"),
        )
    )
    assert both == pytest.approx((one + other) / 2, abs=0.02)
    assert not np.allclose(one, other, atol=0.1)


def test_a_head_that_turns_has_yaws_to_both_sides() -> None:
    detection, alignment = opened("face_detection", "face_rfb_640"), opened("face_alignment", "headpose_fsanet_var")
    yaws = []
    for frame in clip("headpose-female-270p")[::6]:
        boxes = detection.run({"image": frame})["bbox"]
        yaws += [pose[0] for pose in alignment.run({"image": frame, "bbox": boxes})["head_pose"]]
    assert min(yaws) < -15
    assert max(yaws) > 35


def test_up_is_what_its_user_says_it_is() -> None:
    frame = clip("headpose-female-270p")[0]
    inputs = {"image": frame, "bbox": opened("face_detection", "face_rfb_640").run({"image": frame})["bbox"]}
    of_all = [
        opened("face_alignment", "headpose_fsanet_var", up_above=above).run(inputs)["count_result"]
        for above in ("-90", "90")
    ]
    assert of_all == [{"up": 1, "total": 1}, {"up": 0, "total": 1}]


def test_without_faces_there_is_nothing_to_align() -> None:
    aligned = opened("face_alignment", "headpose_fsanet_var").run({"image": GREY, "bbox": [], "prob": []})
    assert aligned == {"head_pose": [], "count_result": {"up": 0, "total": 0}}


@pytest.mark.parametrize("box", [[-50, -50, -10, -10], [500, 500, 600, 600], [10, 10, 10, 10], [50, 50, 5, 5]])
def test_a_box_beside_the_picture_harms_nobody(box: list[float]) -> None:
    aligned = opened("face_alignment", "headpose_fsanet_var").run({"image": GREY, "bbox": [box]})
    assert np.isfinite(aligned["head_pose"]).all()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"bbox": []}, "image is missing"),
        ({"image": "__import__('os')", "bbox": []}, "image is missing"),
        ({"image": GREY}, "bbox is to be"),
        ({"image": GREY, "bbox": "[[1,2,3,4]]"}, "bbox is to be"),
        ({"image": GREY, "bbox": [[1, 2, 3]]}, "bbox is to be"),
        ({"image": GREY, "bbox": [1, 2, 3, 4]}, "bbox is to be"),
        ({"image": GREY, "bbox": [["a", 2, 3, 4]]}, "bbox is to be"),
        ({"image": GREY, "bbox": [[1, 2, 3, 4], [1]]}, "bbox is to be"),
        ({"image": GREY, "bbox": [[1, 2, 3, float("nan")]]}, "bbox is to be"),
        ({"image": GREY, "bbox": [[1, 2, 3, 4]] * 5000}, "up to 4096"),
        ({"image": GREY, "bbox": [[1, 2, 3, 4]], "prob": []}, "prob is to be"),
        ({"image": GREY, "bbox": [[1, 2, 3, 4]], "prob": ["a"]}, "prob is to be"),
    ],
)
def test_what_is_no_input_is_told_by_its_name(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        opened("face_alignment", "headpose_fsanet_var").run(inputs)


def test_a_detector_names_and_counts_what_it_sees() -> None:
    frames = clip("person-bicycle-car-270p")
    everything, cars = (
        opened("detection", "det_yolox_nano_416"),
        opened("detection", "det_yolox_nano_416", classes="Car"),
    )
    seen: set[str] = set()
    for frame in frames[::24]:
        of_all, of_cars = everything.run({"image": frame}), cars.run({"image": frame})
        assert len(of_all["bbox"]) == len(of_all["prob"]) == len(of_all["label"]) == of_all["count_result"]["total"]
        assert set(of_cars["label"]) <= {"car"}
        assert of_cars["count_result"]["car"] == of_all["count_result"].get("car", 0) == len(of_cars["bbox"])
        seen |= set(of_all["label"])
        if of_all["bbox"]:
            assert (everything.draw(frame, {"image": frame}, of_all) != frame).any()
    assert "car" in seen


def test_a_classifier_says_the_best_names_first() -> None:
    digits = np.load(SHARED_DATA / "images" / "digits_test.npz")
    picture = next(iter(open_source(str(SHARED_DATA / "images" / "digits_test.npz")))).picture
    assert digits.files
    stage = opened("classification", "digits_big", top="3")
    answer = stage.run({"image": picture})
    assert len(answer["label"]) == len(answer["prob"]) == 3
    assert answer["prob"] == sorted(answer["prob"], reverse=True)
    assert answer["count_result"] == dict(zip(answer["label"], answer["prob"], strict=True))


def test_a_classifier_is_no_detector() -> None:
    with pytest.raises(ModelUnusable, match="no classifier"):
        opened("classification", "det_fastestdet_352").run({"image": GREY})


@pytest.mark.parametrize(
    ("kind", "models", "parameters", "message"),
    [
        ("face_detection", ("face_rfb_320",), {"score_threshold": "high"}, "score_threshold is a number"),
        ("face_detection", ("face_rfb_320",), {"score_threshold": "2"}, "score_threshold is a number"),
        ("face_detection", ("face_rfb_320",), {"nms_threshold": "nan"}, "nms_threshold is a number"),
        ("detection", ("det_fastestdet_352",), {"decoder": "guess"}, "no decoder 'guess'"),
        ("classification", ("digits_big",), {"top": "0"}, "top is a number"),
        ("face_alignment", (), {}, "one model of head poses, or two"),
        ("face_alignment", ("headpose_fsanet_var",) * 3, {}, "one model of head poses, or two"),
        ("face_alignment", ("headpose_fsanet_var",), {"up_above": "x"}, "up_above is a number"),
    ],
)
def test_what_a_stage_cannot_be_is_told(
    kind: str, models: tuple[str, ...], parameters: dict[str, str], message: str
) -> None:
    with pytest.raises(BadStage, match=message):
        opened(kind, *models, **parameters)


def test_head_poses_want_a_model_of_head_poses() -> None:
    with pytest.raises(ModelUnusable, match="no model of head poses"):
        opened("face_alignment", "face_rfb_320")
