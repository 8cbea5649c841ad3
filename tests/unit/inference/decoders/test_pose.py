"""Boxes with key points, against a computation one row after the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.inference.decoders import OutputSpec, family_of
from app.inference.errors import ModelUnusable
from app.inference.prediction import Box, Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocessing import fit_of
from tests.harness.models.vision import answering, card, opened, plain

SIZE, CELLS = (64, 32), 32 + 8 + 2
SOURCE = (200, 50)
OPTIONS = PredictorOptions(score_threshold=0.6, candidate_threshold=0.2, nms_threshold=0.3)


def outputs(keypoints: int, seed: int = 1) -> np.ndarray:
    """1×(5+3K)×N: every box overlaps several others."""
    random = np.random.default_rng(seed)
    rows = np.concatenate(
        [
            random.uniform(5, 60, (CELLS, 2)) * (1, 0.5),
            random.uniform(4, 12, (CELLS, 2)),
            random.uniform(0, 1, (CELLS, 1)),
            np.dstack(
                [random.uniform(-5, 70, (CELLS, keypoints, 2)), random.uniform(0, 1, (CELLS, keypoints, 1))]
            ).reshape(CELLS, -1),
        ],
        axis=1,
    )
    return rows.T[None].astype(np.float32)


def expected(values: np.ndarray) -> list[Box]:
    """The picture is 200×50, so it is 64×16 in the input, with bars of 8 above and below."""

    def place(x: float, y: float) -> tuple[float, float]:
        return min(max(x * 200 / 64, 0), 200), min(max((y - 8) * 50 / 16, 0), 50)

    boxes: list[Box] = []
    whole: list[tuple[float, ...]] = []
    for x, y, width, height, score, *points in sorted(values[0].T.tolist(), key=lambda row: -row[4]):
        if score < OPTIONS.score_threshold:
            continue
        corners = x - width / 2, y - height / 2, x + width / 2, y + height / 2
        if any(share(corners, other) > OPTIONS.nms_threshold for other in whole):
            continue
        whole.append(corners)
        keypoints = tuple((*place(*points[at : at + 2]), points[at + 2]) for at in range(0, len(points), 3))
        boxes.append(Box(*place(*corners[:2]), *place(*corners[2:]), score, 0, keypoints))
    return boxes


def share(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    width = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    height = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    whole = sum(areas) - width * height
    return width * height / whole if whole else 0.0


def numbers(boxes: tuple[Box, ...] | list[Box]) -> np.ndarray:
    return np.array([[box.x1, box.y1, box.x2, box.y2, box.score, *np.ravel(box.keypoints)] for box in boxes])


@pytest.mark.parametrize("keypoints", [1, 5, 17])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_boxes_keep_their_key_points_through_suppression_and_letterbox(keypoints: int, is_transposed: bool) -> None:
    values = outputs(keypoints)
    given = values.transpose(0, 2, 1) if is_transposed else values
    family = family_of(Decoder.AUTO, [OutputSpec("output0", given.shape, given)], SIZE)
    assert family.name is Decoder.YOLOV8_POSE
    decoded = family.read({"output0": given}, fit_of(SOURCE, SIZE, "letterbox"), SIZE, OPTIONS)
    assert len(decoded.boxes) > 5
    assert not family.read({"output0": 0 * given}, fit_of(SOURCE, SIZE, "letterbox"), SIZE, OPTIONS).boxes
    np.testing.assert_allclose(numbers(decoded.boxes), numbers(expected(values)), rtol=1e-4, atol=1e-3)


def test_a_detector_of_as_many_channels_stays_one_since_its_values_are_probabilities() -> None:
    scores = np.full((1, 56, 8400), 0.9, np.float32)
    scores[:, :4] = 300
    for channels, given in ((8, None), (8, scores[:, :8]), (56, scores)):
        port = OutputSpec("output0", (1, channels, 8400), given)
        assert family_of(Decoder.AUTO, [port], (640, 640)).name is Decoder.YOLOV8
    pose = OutputSpec("output0", (1, 56, 8400))
    assert family_of(Decoder.AUTO, [pose], (640, 640)).name is Decoder.YOLOV8_POSE
    with pytest.raises(ModelUnusable, match="not those of yolov8-pose"):
        family_of(Decoder.YOLOV8_POSE, [OutputSpec("output0", (1, 56, 8400), scores)], (640, 640))


def test_a_key_point_without_numbers_is_invisible_and_its_box_stays() -> None:
    values = np.zeros((1, 8, CELLS), np.float32)
    values[0, :, 3] = [20, 16, 8, 8, 0.9, np.nan, 4, 0.9]
    values[0, 5, 4] = 9
    family = family_of(Decoder.AUTO, [OutputSpec("output0", values.shape, np.nan_to_num(values))], SIZE)
    (box,) = family.read({"output0": values}, fit_of(SIZE, SIZE, "stretch"), SIZE, OPTIONS).boxes
    assert box.keypoints == ((0, 0, 0),)


@pytest.mark.parametrize(("keypoints", "labels"), [(17, ("person",)), (5, ())])
@pytest.mark.parametrize("decoder", [Decoder.AUTO, Decoder.YOLOV8_POSE])
def test_a_model_answers_key_points_in_pixels_of_the_picture(
    tmp_path: Path, keypoints: int, labels: tuple[str, ...], decoder: Decoder
) -> None:
    cells = 64 + 16 + 4
    values = np.zeros((1, 5 + 3 * keypoints, cells), np.float32)
    values[0, :, 11] = [32, 32, 16, 24, 0.9, *[30, 40, 0.8] * keypoints]
    predictor = opened(tmp_path, answering({"output0": values}, (1, 3, 64, 64)), card(decoder=decoder))
    assert (predictor.decoder, predictor.labels) == (Decoder.YOLOV8_POSE, labels)
    (box,) = predictor.predict(plain(1, 2, 3, 128, 64)).boxes
    assert (box.x1, box.y1, box.x2, box.y2) == pytest.approx((48, 8, 80, 56))
    np.testing.assert_allclose(box.keypoints, [(60, 48, 0.8)] * keypoints, rtol=1e-5)
