"""Text: lines of a probability map, characters of steps, and both as two stages of a video job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from app.conversion.service.answers import read_answers
from app.conversion.toolchains.host.task_recognition import detector_of
from app.edge.joint.rows import objects_of
from app.edge.video.stages.base import ModelFile
from app.edge.video.stages.text import TextRecognition as TextStage
from app.inference.agreement import agreement
from app.inference.annotations import caption
from app.inference.decoders import OutputSpec, family_of
from app.inference.decoders.text_detection import TextDetection, smallest_rectangle
from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.prediction import Box, Decoder, Prediction
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocessing import fit_of
from app.joint_inference.model.tally import Sample, Source
from app.joint_inference.pages.sample_views import sample_view
from app.kit.errors import BadRequest
from tests.harness.models.host import model_of
from tests.harness.models.vision import answering, card, opened, plain, save

SIZE = (128, 96)
OPTIONS = PredictorOptions(score_threshold=0.6, candidate_threshold=0.2)
DB, CTC = "sigmoid_0.tmp_0", "softmax_1.tmp_0"
CHARACTERS = tuple("0123456789AB")


def lines(values: np.ndarray) -> tuple[Box, ...]:
    family = family_of(Decoder.AUTO, [OutputSpec(DB, values.shape, values)], SIZE)
    assert family.name is Decoder.TEXT_DETECTION
    return family.read({DB: values}, fit_of((256, 192), SIZE, "stretch"), SIZE, OPTIONS).boxes


def test_a_line_is_enlarged_by_its_area_and_perimeter() -> None:
    values = np.zeros((1, 1, 96, 128), np.float32)
    values[0, 0, 20:31, 30:71] = 0.9
    values[0, 0, 60:63, 30:33], values[0, 0, 80:90, 10:50] = 0.99, 0.35
    (line,) = lines(values)  # the second is too small, the third too unsure
    distance = 40 * 10 * 1.5 / 100
    expected = np.array([30 - distance, 20 - distance, 70 + distance, 30 + distance]) * 2
    assert (line.x1, line.y1, line.x2, line.y2) == pytest.approx(expected, abs=0.2)
    assert line.score == pytest.approx(0.9)
    assert len(line.mask[0]) == 4


def test_a_turned_line_has_turned_corners() -> None:
    angle = np.radians(25)
    across, down = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    rows, columns = np.mgrid[:96, :128]
    x, y = columns - 64, rows - 48
    is_line = (abs(x * across[0] + y * across[1]) <= 30) & (abs(x * down[0] + y * down[1]) <= 6)
    (line,) = lines(is_line[None, None].astype(np.float32))
    distance = 60 * 12 * 1.5 / 144
    corners = [
        2 * (np.array([64, 48]) + side * (30 + distance) * across + end * (6 + distance) * down)
        for side, end in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    ]
    np.testing.assert_allclose(line.mask[0], corners, atol=3)


@pytest.mark.parametrize("degrees", [0, 7.3, 44, 61, 89])
def test_the_smallest_rectangle_around_a_rectangle_is_itself(degrees: float) -> None:
    turn = np.exp(1j * np.radians(degrees))
    points = np.array([0, 1, 40 + 0j, 40 + 8j, 8j]) * turn
    rectangle = smallest_rectangle(np.stack([points.real, points.imag], axis=1))
    corners = {complex(round(x), round(y)) for x, y in rectangle.tolist()}
    assert corners == {complex(round(p.real), round(p.imag)) for p in np.delete(points, 1)}


def steps(*numbers: int, share: float = 0.9, count: int = 13) -> np.ndarray:
    """1×T×C; 0 is the blank."""
    values = np.full((1, len(numbers), count), (1 - share) / (count - 1), np.float32)
    values[0, range(len(numbers)), numbers] = share
    return values


def recognizer(values: np.ndarray) -> Any:
    return answering({CTC: values}, (1, 3, 48, 320))


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (CHARACTERS, "12A"),
        (("blank", *CHARACTERS), "12A"),
        ((*CHARACTERS, "<blank>"), "0203B0"),
        (("_", *CHARACTERS[:11], "-"), "12A"),
        (CHARACTERS[:3], "12"),
        ((), ""),
    ],
    ids=["without a blank", "with a blank", "with a blank at the end", "a dash at the end", "too few", "none"],
)
def test_repetitions_count_once_and_blanks_part_them(tmp_path: Path, labels: tuple[str, ...], text: str) -> None:
    predictor = opened(tmp_path, recognizer(steps(0, 2, 2, 0, 3, 11, 0)), card(labels=labels))
    assert (predictor.decoder, predictor.labels) == (Decoder.TEXT_RECOGNITION, ("text",))
    prediction = predictor.predict(plain(1, 2, 3, 200, 40))
    assert [(box.text, round(box.score, 2), box.x2, box.y2) for box in prediction.boxes] == (
        [(text, 0.9, 200, 40)] if text else []
    )
    assert Prediction.from_json(prediction.to_json()).boxes == tuple(
        Box(0, 0, 200, 40, pytest.approx(0.9), text=text) for _ in prediction.boxes
    )


def test_the_same_character_twice_needs_a_blank_and_an_unsure_line_is_a_candidate(tmp_path: Path) -> None:
    predictor = opened(tmp_path, recognizer(steps(2, 0, 2, share=0.5)), card(labels=CHARACTERS))
    prediction = predictor.predict(plain(1, 2, 3))
    assert (prediction.boxes, [box.text for box in prediction.candidates]) == ((), ["11"])


def test_steps_may_come_first_and_names_may_be_stored_in_the_file(tmp_path: Path) -> None:
    model = recognizer(steps(2, 0, 13, count=14).transpose(1, 0, 2))
    helper.set_model_props(model, {"character": "\n".join(CHARACTERS)})
    (box,) = opened(tmp_path, model, decoder=Decoder.TEXT_RECOGNITION).predict(plain(1, 2, 3)).candidates
    assert box.text == "1", "the space at the end is dropped"


def test_steps_that_are_no_numbers_are_an_error(tmp_path: Path) -> None:
    predictor = opened(tmp_path, recognizer(steps(2) * np.nan), card(labels=CHARACTERS))
    with pytest.raises(InferenceFailed, match="no numbers"):
        predictor.predict(plain(1, 2, 3))


def test_texts_are_compared_by_equality_and_are_the_class_of_a_row() -> None:
    one, same, other = (Prediction((Box(0, 0, 9, 9, 0.9, text=text),)) for text in ("A1", "A1", "A2"))
    assert (agreement(one, same), agreement(one, other)) == (1.0, 0.0)
    assert caption(objects_of(one, (9, 9))[0], ("text",)) == "A1 0.90"


def test_pages_show_the_text_in_place_of_the_class() -> None:
    answer = Prediction((Box(0, 0, 9, 9, 0.9, text="A1"),))
    sample = Sample("1", "2026-11-26T12:00:00.000Z", 9, 9, "", 0.5, Source.EDGE, answer, None, labels=("text",))
    assert [each.name for each in sample_view(sample).edge.listed] == ["A1"]
    side = {**answer.to_json(), "classes": []}
    picture = {"place": 0, "width": 9, "height": 9, "float": side, "int8": side}
    (read,) = read_answers({"problem": "", "labels": ["text"], "pictures": [picture]}).pictures
    assert [box.label for box in read.float_.boxes] == ["A1"]


def test_a_conversion_does_not_compare_them_box_by_box() -> None:
    assert detector_of(recognizer(steps(2))) is None
    assert detector_of(answering({DB: np.zeros((1, 1, 48, 320), np.float32)}, (1, 3, 48, 320))) is None


@pytest.fixture
def stage(tmp_path: Path) -> TextStage:
    """Reads "1" in what is brighter on the left, "2" in what is brighter on the right."""
    nodes = [
        helper.make_node("AveragePool", ["x"], ["halves"], "halves", kernel_shape=[48, 160], strides=[48, 160]),
        helper.make_node("ReduceMean", ["halves"], ["grey"], "grey", axes=[1], keepdims=0),
        helper.make_node("Reshape", ["grey", "two"], ["pair"], "pair"),
        helper.make_node("MatMul", ["pair", "w"], [CTC], "classes"),
    ]
    weights = np.zeros((2, 13), np.float32)
    weights[0, 2], weights[1, 3] = 20, 20
    model = model_of(
        nodes, {"x": [1, 3, 48, 320]}, {CTC: [1, 1, 13]}, {"w": weights, "two": np.array([1, 1, 2], np.int64)}
    )
    return TextStage([ModelFile(card(labels=CHARACTERS), save(tmp_path, model))], {})


def test_a_stage_reads_each_box_along_its_corners(stage: TextStage) -> None:
    picture = np.zeros((100, 400, 3), np.uint8)
    picture[20:40, 20:80], picture[60:80, 260:320] = 255, 255
    bbox = [[20, 20, 140, 40], [200, 60, 320, 80], [5, 5, 5, 5]]
    outputs = stage.run({"image": picture, "bbox": bbox})
    assert (outputs["label"], outputs["bbox"], outputs["count_result"]) == (["1", "2"], bbox[:2], {"total": 2})
    turned = [[140, 40, 20, 40, 20, 20, 140, 20]]  # the line is upside down
    outputs = stage.run({"image": picture, "bbox": bbox[:1], "masks": [turned]})
    assert outputs["label"] == ["2"]
    drawn = stage.draw(picture, {}, outputs)
    assert drawn.shape == picture.shape
    assert (drawn != picture).any()
    with pytest.raises(BadRequest, match="masks"):
        stage.run({"image": picture, "bbox": bbox[:1], "masks": [[], []]})
    with pytest.raises(BadRequest, match="of numbers"):
        stage.run({"image": picture, "bbox": bbox[:1], "masks": [[["a", "b"]]]})


def test_a_stage_for_text_refuses_other_models(tmp_path: Path) -> None:
    path = save(tmp_path, answering({"probabilities": np.full((1, 4), 0.25, np.float32)}))
    with pytest.raises(ModelUnusable, match="does not read text"):
        TextStage([ModelFile(card(), path)], {})


def test_text_detection_needs_the_size_of_the_input() -> None:
    assert not TextDetection().fits([OutputSpec(DB, (1, 1, 48, 64))], SIZE)
    assert TextDetection().fits([OutputSpec(DB, (None, 1, None, None))], (0, 0))
