"""Real models on real pictures and clips. They are not part of the repository, so without them these tests skip."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from app.inference.decoders.base import overlap
from app.inference.errors import ModelUnusable
from app.inference.model_card import Format, ModelCard
from app.inference.picture_codec import decode, encode
from app.inference.prediction import Box, Decoder, Prediction
from app.inference.predictor import Predictor
from app.inference.predictor_factory import open_predictor
from app.inference.predictor_options import PredictorOptions
from app.inference.sources import Frame, open_source
from tests.harness.models.converted import converted_faces
from tests.harness.paths import SHARED_DATA

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SHARED_DATA / "models").is_dir(), reason="the real test models are not on this machine"),
]

CLASSROOM, HEADPOSE = "classroom-270p", "headpose-female-270p"
FACES = {CLASSROOM: 4, HEADPOSE: 1}
EVERY = 12


@cache
def opened(name: str, **options: Any) -> Predictor:
    return open_predictor(
        ModelCard(name, Format.ONNX, "0" * 64, 1),
        SHARED_DATA / "models" / f"{name}.onnx",
        None,
        PredictorOptions(**options),
    )


@cache
def clip(name: str) -> list[Frame]:
    return [frame for frame in open_source(str(SHARED_DATA / "video" / f"{name}.mp4")) if frame.index % EVERY == 0]


def exact(predictor: Predictor, frames: list[Frame], faces: int) -> float:
    """Share of the frames in which as many faces are found as there are."""
    return float(np.mean([len(predictor.predict(frame.picture).boxes) == faces for frame in frames]))


@pytest.mark.parametrize("name", FACES)
def test_a_clip_is_whole(name: str) -> None:
    source = open_source(str(SHARED_DATA / "video" / f"{name}.mp4"))
    assert Counter(frame.picture.shape for frame in source) == {(270, 480, 3): 120 if name == CLASSROOM else 111}
    assert source.damaged == 0


def test_the_big_face_detector_counts_right_in_every_frame() -> None:
    predictor = opened("face_rfb_640")
    assert (predictor.decoder, predictor.input_size, predictor.labels) == (Decoder.ULTRAFACE, (640, 480), ("face",))
    assert {name: exact(predictor, clip(name), faces) for name, faces in FACES.items()} == {CLASSROOM: 1, HEADPOSE: 1}


def test_the_small_face_detector_sees_one_face_and_doubts_four() -> None:
    """What joint inference rests on: where it is wrong, it has candidates below the threshold."""
    predictor = opened("face_slim_320")
    assert exact(predictor, clip(HEADPOSE), 1) == 1
    frames = clip(CLASSROOM)
    assert exact(predictor, frames, 4) < 0.1
    assert np.mean([len(predictor.predict(frame.picture).candidates) for frame in frames]) > 3


@pytest.mark.parametrize("name", ["face_rfb_320", "face_yunet_n_320_320", "face_yunet_n_dynamic"])
def test_other_face_detectors_find_the_one_face(name: str) -> None:
    assert exact(opened(name), clip(HEADPOSE), 1) == 1


def test_yunet_finds_the_four_faces_where_the_big_one_finds_them() -> None:
    frame = clip(CLASSROOM)[0]
    predictions = opened("face_yunet_n_320_320", score_threshold=0.4).predict(frame.picture)
    assert matched(predictions, opened("face_rfb_640").predict(frame.picture), at=0.3) == 4


def test_the_export_without_post_processing_finds_the_same_faces() -> None:
    for path in ("face_1.jpg", "face_3.jpg", "face_11.jpg"):
        picture = decode((SHARED_DATA / "images" / path).read_bytes())
        whole, bare = (opened(name).predict(picture) for name in ("face_rfb_320", "face_rfb_320_nopost"))
        assert len(whole.boxes) == len(bare.boxes) >= 1
        assert matched(whole, bare, at=0.98) == len(whole.boxes)


def matched(one: Prediction, other: Prediction, at: float) -> int:
    """How many boxes of the one have a box of their class in the other that overlaps so much."""
    return sum(any(_overlap(box, its) >= at and box.label == its.label for its in other.boxes) for box in one.boxes)


def _overlap(one: Box, other: Box) -> float:
    corners = np.array([[box.x1, box.y1, box.x2, box.y2] for box in (one, other)])
    return float(overlap(corners[0], corners[1:])[0])


@pytest.mark.parametrize(
    ("name", "picture", "seen"),
    [
        ("det_fastestdet_352", "street_1.jpg", {"bus"}),
        ("det_fastestdet_352", "street_2.jpg", {"person"}),
        ("det_yolox_nano_416", "street_3.jpg", {"person", "frisbee"}),
        ("det_yolox_nano_416", "street_0.jpg", {"person", "baseball bat"}),
    ],
)
def test_object_detectors_name_what_is_to_be_seen(name: str, picture: str, seen: set[str]) -> None:
    predictor = opened(name, score_threshold=0.4)
    pixels = decode((SHARED_DATA / "images" / picture).read_bytes())
    boxes = predictor.predict(pixels).boxes
    assert len(predictor.labels) == 80
    assert seen <= {predictor.labels[box.label] for box in boxes}
    for box in boxes:
        assert 0 <= box.x1 < box.x2 <= pixels.shape[1]
        assert 0 <= box.y1 < box.y2 <= pixels.shape[0]


def test_two_object_detectors_agree_where_the_people_are() -> None:
    """One is fed stretched, the other letterboxed: their boxes lie on each other only if both come back right."""
    picture = decode((SHARED_DATA / "images" / "street_2.jpg").read_bytes())
    one, other = (
        opened(name, score_threshold=0.5).predict(picture) for name in ("det_fastestdet_352", "det_yolox_nano_416")
    )
    assert matched(one, other, at=0.5) >= 3


@pytest.mark.parametrize(("name", "accuracy"), [("digits_small", 0.8387), ("digits_big", 0.9733)])
def test_digits_are_told_as_well_as_from_the_floats_they_were_made_of(name: str, accuracy: float) -> None:
    predictor = opened(name)
    frames = list(open_source(str(SHARED_DATA / "images" / "digits_test.npz")))
    assert len(frames) == 899
    right = [predictor.predict(decode(encode(frame.picture)[0])).label == frame.truth for frame in frames]
    assert np.mean(right) == pytest.approx(accuracy, abs=0.01)


def test_a_prediction_of_a_real_picture_survives_the_network() -> None:
    prediction = opened("face_rfb_640").predict(clip(CLASSROOM)[0].picture)
    again = Prediction.from_json(json.loads(json.dumps(prediction.to_json())))
    assert matched(again, prediction, at=0.99) == 4
    assert again.runtime == prediction.runtime


def test_the_converted_small_detector_finds_what_the_original_finds(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """ONNX → BIE → NEF of the host toolchain, each with the preprocessing that it was converted with."""
    folder = converted_faces(tmp_path_factory, SHARED_DATA)
    frames = clip(HEADPOSE)
    for format_, name in ((Format.BIE, "out.bie"), (Format.NEF, "out.nef")):
        card = ModelCard(name, format_, "0" * 64, 1, toolchain="host")
        predictor = open_predictor(card, folder / name, None, PredictorOptions())
        assert exact(predictor, frames, 1) >= 0.95, predictor.runtime


def test_a_model_of_no_pictures_is_refused() -> None:
    with pytest.raises(ModelUnusable, match=r"\[1, 39\] takes no pictures"):
        opened("cls_accelerometer_rank2")
