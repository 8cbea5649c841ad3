"""How outputs become boxes and classes: numbers worked out by hand for each family."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.inference.decoders import FAMILIES, OutputSpec, family_of
from app.inference.decoders.base import DecodedOutputs, suppress_overlaps
from app.inference.decoders.class_names import COCO
from app.inference.decoders.classifier import probabilities
from app.inference.decoders.ultraface import priors
from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.prediction import Decoder
from app.inference.predictor_options import PredictorOptions
from app.inference.preprocessing import Fit, Size

OPEN = PredictorOptions(score_threshold=0.6, candidate_threshold=0.2, nms_threshold=0.3)


def read(name: Decoder, size: Size, outputs: dict[str, np.ndarray], options: PredictorOptions = OPEN) -> DecodedOutputs:
    """Of a picture twice as large as the input."""
    family = next(family for family in FAMILIES if family.name is name)
    assert family.fits([OutputSpec(key, values.shape) for key, values in outputs.items()], size)
    return family.read(outputs, Fit((size[0] * 2, size[1] * 2), size), size, options)


def corners(reading: DecodedOutputs) -> list[list[float]]:
    return [[box.x1, box.y1, box.x2, box.y2] for box in reading.boxes]


def ultraface(**at: tuple[float, list[float]]) -> dict[str, np.ndarray]:
    scores, boxes = np.zeros((1, 4420, 2), np.float32), np.zeros((1, 4420, 4), np.float32)
    for row, (score, box) in at.items():
        scores[0, int(row[1:])] = 1 - score, score
        boxes[0, int(row[1:])] = box
    return {"scores": scores, "boxes": boxes}


def test_ultraface_gives_corners_in_parts_of_the_picture() -> None:
    reading = read(Decoder.ULTRAFACE, (320, 240), ultraface(r7=(0.9, [0.25, 0.5, 0.5, 0.75]), r9=(0.1, [0, 0, 1, 1])))
    np.testing.assert_allclose(corners(reading), [[160, 240, 320, 360]])
    assert reading.boxes[0].score == pytest.approx(0.9)


def test_ultraface_without_its_post_processing_gives_offsets_to_its_prior_boxes() -> None:
    """The last prior lies on the last cell of stride 64, and its sides are clipped to the input."""
    outputs = ultraface()
    outputs["boxes"][0] = [0.5, 0, -0.5, 0]
    outputs["boxes"][0, -3] = [1, -1, np.log(0.5) / 0.2, 0]
    outputs["scores"][0, -3] = 0.1, 0.9
    prior = priors((320, 240))[-3] * [320, 240, 320, 240]
    np.testing.assert_allclose(prior, [288, 224, 128, 128], rtol=1e-5)
    reading = read(Decoder.ULTRAFACE, (320, 240), outputs)
    expected = np.array([[288 + 12.8 - 32, 224 - 12.8 - 64, 320, 240]]) * 2
    np.testing.assert_allclose(corners(reading), expected, rtol=1e-4)


def yunet() -> dict[str, np.ndarray]:
    """Of a model for 64 × 32 pixels."""
    counts = {stride: (64 // stride) * (32 // stride) for stride in (8, 16, 32)}
    widths = {"cls": 1, "obj": 1, "bbox": 4, "kps": 10}
    return {
        f"{kind}_{stride}": np.zeros((1, count, width), np.float32)
        for kind, width in widths.items()
        for stride, count in counts.items()
    }


def test_yunet_multiplies_class_and_object_and_counts_from_the_cell() -> None:
    outputs = yunet()
    outputs["cls_8"][0, 9], outputs["obj_8"][0, 9] = 0.8, 0.5
    outputs["bbox_8"][0, 9] = [0.5, 1, np.log(2), np.log(1)]
    outputs["cls_32"][0, 1], outputs["obj_32"][0, 1] = 1, 0.81
    reading = read(Decoder.YUNET, (64, 32), outputs)
    np.testing.assert_allclose(corners(reading), [[32, 0, 96, 32], [8, 24, 40, 40]], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose([box.score for box in reading.boxes], [0.9, np.sqrt(0.4)], rtol=1e-5)


def test_yunet_needs_no_names() -> None:
    outputs = yunet()
    outputs["cls_16"][0, 0] = outputs["obj_16"][0, 0] = 1
    unnamed = {str(index): values for index, values in enumerate(outputs.values())}
    assert read(Decoder.YUNET, (64, 32), unnamed) == read(Decoder.YUNET, (64, 32), outputs)
    assert len(read(Decoder.YUNET, (64, 32), unnamed).boxes) == 1


def test_fastestdet_weighs_class_against_object_and_bends_its_offsets() -> None:
    values = np.zeros((1, 7, 2, 3), np.float32)
    values[0, :, 1, 2] = [0.9, np.arctanh(0.5), np.arctanh(-0.5), 0, np.log(3), 0.3, 0.8]
    reading = read(Decoder.FASTESTDET, (48, 32), {"758": values})
    centre, sides = np.array([2.5 / 3, 0.5 / 2]), np.array([0.5, 0.75])
    expected = np.concatenate([centre - sides / 2, centre + sides / 2]) * [96, 64, 96, 64]
    np.testing.assert_allclose(corners(reading), [np.clip(expected, 0, [96, 64, 96, 64])], rtol=1e-5)
    assert reading.boxes[0].score == pytest.approx(0.8**0.4 * 0.9**0.6)
    assert reading.boxes[0].label == 1


def test_yolox_counts_from_the_cell_of_the_stride_and_takes_the_best_class() -> None:
    values = np.zeros((1, 32 + 8 + 2, 8), np.float32)
    values[0, 32 + 5] = [0.5, 0.25, np.log(2), np.log(1), 0.9, 0.1, 0.2, 0.8]
    reading = read(Decoder.YOLOX, (64, 32), {"output": values})
    np.testing.assert_allclose(corners(reading), [[16, 24, 80, 56]], rtol=1e-5)
    assert (reading.boxes[0].label, reading.boxes[0].score) == (2, pytest.approx(0.72))


def test_the_boxes_are_among_the_candidates_and_those_below_both_thresholds_are_not_looked_at() -> None:
    outputs = ultraface(
        r0=(0.9, [0, 0, 0.2, 0.2]),
        r1=(0.5, [0.4, 0.4, 0.6, 0.6]),
        r2=(0.19, [0.7, 0.7, 0.9, 0.9]),
        r3=(0.8, [0, 0, 0.2, 0.21]),
    )
    reading = read(Decoder.ULTRAFACE, (320, 240), outputs)
    assert [round(box.score, 2) for box in reading.candidates] == [0.9, 0.5]
    assert reading.boxes == reading.candidates[:1]


def test_a_score_threshold_below_the_candidates_own_still_counts() -> None:
    outputs = ultraface(r0=(0.3, [0, 0, 0.2, 0.2]))
    options = PredictorOptions(score_threshold=0.25, candidate_threshold=0.4)
    reading = read(Decoder.ULTRAFACE, (320, 240), outputs, options)
    assert len(reading.boxes) == len(reading.candidates) == 1


def test_numbers_that_are_none_give_no_boxes() -> None:
    outputs = ultraface(r0=(np.nan, [0, 0, 1, 1]), r1=(0.9, [np.nan, 0, 1, 1]))
    assert read(Decoder.ULTRAFACE, (320, 240), outputs) == DecodedOutputs()
    values = np.full((1, 32 + 8 + 2, 6), 0.9, np.float32)
    values[..., 2] = 1e9
    assert corners(read(Decoder.YOLOX, (64, 32), {"output": values})) == [], "no box is without an end"


def test_of_two_boxes_of_a_class_that_overlap_the_weaker_one_goes() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [1, 0, 11, 10], [20, 0, 30, 10]], np.float32)
    scores = np.array([0.8, 0.9, 0.7, 0.6], np.float32)
    kept = suppress_overlaps(boxes, scores, np.array([0, 0, 1, 0]), 0.3)
    assert kept.tolist() == [1, 2, 3]
    assert suppress_overlaps(boxes, scores, np.array([0, 0, 0, 0]), 0.9).tolist() == [1, 0, 3]


def test_boxes_are_compared_before_they_are_cut_at_the_border() -> None:
    rows = np.zeros((1, 5, 42), np.float32)
    rows[0, :, 0], rows[0, :, 1] = [-4, 16, 40, 16, 0.9], [2, 16, 16, 16, 0.8]
    reading = read(Decoder.YOLOV8, (64, 32), {"output0": rows}, replace(OPEN, nms_threshold=0.5))
    np.testing.assert_allclose(corners(reading), [[0, 16, 32, 48], [0, 16, 20, 48]])  # visible parts overlap by 0.63


def test_suppression_agrees_with_the_plain_way_on_many_boxes() -> None:
    rng = np.random.default_rng(3)
    starts = rng.uniform(0, 80, (300, 2))
    boxes = np.concatenate([starts, starts + rng.uniform(5, 40, (300, 2))], axis=1).astype(np.float32)
    scores, labels = rng.uniform(0, 1, 300).astype(np.float32), rng.integers(0, 3, 300)
    plain: list[int] = []
    for index in np.argsort(-scores):
        if all(labels[index] != labels[other] or iou(boxes[index], boxes[other]) <= 0.4 for other in plain):
            plain.append(int(index))
    assert suppress_overlaps(boxes, scores, labels, 0.4).tolist() == plain


def iou(one: np.ndarray, other: np.ndarray) -> float:
    width = max(0.0, min(one[2], other[2]) - max(one[0], other[0]))
    height = max(0.0, min(one[3], other[3]) - max(one[1], other[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return width * height / (sum(areas) - width * height)


def test_probabilities_stay_and_logits_become_such() -> None:
    np.testing.assert_allclose(probabilities(np.array([0.1, 0.2, 0.7])), [0.1, 0.2, 0.7])
    np.testing.assert_allclose(probabilities(np.array([0.1, 0.2, 0.72])).sum(), 1)
    np.testing.assert_allclose(probabilities(np.array([0, np.log(3)])), [0.25, 0.75])
    np.testing.assert_allclose(probabilities(np.array([1000.0, -1000.0])), [1, 0])


def test_a_classifier_that_answers_without_numbers_has_failed() -> None:
    with pytest.raises(InferenceFailed, match="no numbers"):
        read(Decoder.CLASSIFIER, (8, 8), {"probs": np.array([[np.nan, 0.5]])})


def test_auto_tells_the_families_apart_by_their_shapes() -> None:
    shapes: dict[Decoder, tuple[Size, list[tuple[int | None, ...]]]] = {
        Decoder.ULTRAFACE: ((640, 480), [(1, 17640, 2), (1, 17640, 4)]),
        Decoder.YUNET: ((320, 320), [(1, n, w) for w in (1, 1, 4, 10) for n in (1600, 400, 100)]),
        Decoder.FASTESTDET: ((352, 352), [(1, 85, 22, 22)]),
        Decoder.YOLOX: ((416, 416), [(1, 3549, 85)]),
        Decoder.CLASSIFIER: ((8, 8), [(None, 10)]),
    }
    for name, (size, sides) in shapes.items():
        ports = [OutputSpec(str(index), shape) for index, shape in enumerate(sides)]
        assert family_of(Decoder.AUTO, ports, size).name is name
        assert family_of(name, ports, size).name is name


@pytest.mark.parametrize(
    "sides",
    [
        [(1, 3549, 85), (1, 3549, 4)],
        [(1, 3, 352, 352)],
        [(1, 100, 85)],
        [(1, 1)],
        [],
        [(1, 10), (1, 10)],
        [(1, 4420, 2), (1, 4421, 4)],
        [(1, n, w) for w in (1, 1, 4, 10) for n in (1600, 400, 99)],
    ],
)
def test_outputs_that_no_decoder_understands_are_named(sides: list[tuple[int | None, ...]]) -> None:
    ports = [OutputSpec(f"out{index}", shape) for index, shape in enumerate(sides)]
    with pytest.raises(ModelUnusable, match="no decoder understands the model's outputs") as caught:
        family_of(Decoder.AUTO, ports, (352, 352))
    assert all(port.name in caught.value.message for port in ports)
    assert "yolox" in caught.value.hint


def test_a_decoder_that_is_named_has_to_fit() -> None:
    with pytest.raises(ModelUnusable, match=r"not those of yunet: probs \[\?, 10\]"):
        family_of(Decoder.YUNET, [OutputSpec("probs", (None, 10))], (8, 8))


def test_an_export_with_open_sides_is_recognized_by_its_channels() -> None:
    assert family_of(Decoder.AUTO, [OutputSpec("output0", (None, 22, None))], (0, 0)).name is Decoder.YOLOV8
    assert family_of(Decoder.AUTO, [OutputSpec("output0", (None, 22, None))], (320, 320)).name is Decoder.YOLOV8


def test_yolov8_has_its_boxes_in_columns_and_no_objectness() -> None:
    values = np.zeros((1, 7, 32 + 8 + 2), np.float32)
    values[0, :, 11] = [20, 16, 8, 4, 0.1, 0.9, 0.3]
    reading = read(Decoder.YOLOV8, (64, 32), {"output0": values})
    np.testing.assert_allclose(corners(reading), [[32, 28, 48, 36]])
    assert (reading.boxes[0].label, reading.boxes[0].score) == (1, pytest.approx(0.9))


def test_yolov5_multiplies_object_and_class() -> None:
    values = np.zeros((1, 3 * (32 + 8 + 2), 7), np.float32)
    values[0, 100] = [20, 16, 8, 4, 0.9, 0.1, 0.8]
    reading = read(Decoder.YOLOV5, (64, 32), {"output": values})
    np.testing.assert_allclose(corners(reading), [[32, 28, 48, 36]])
    assert (reading.boxes[0].label, reading.boxes[0].score) == (1, pytest.approx(0.72))


@pytest.mark.parametrize("has_batch", [True, False])
def test_scrfd_measures_from_its_cell_to_the_sides_of_the_box(has_batch: bool) -> None:
    outputs = {}
    for stride, count in ((8, 64), (16, 16), (32, 4)):
        for name, width in (("score", 1), ("bbox", 4), ("kps", 10)):
            shape = (1, count, width) if has_batch else (count, width)
            outputs[f"{name}_{stride}"] = np.zeros(shape, np.float32)
    outputs["score_8"].reshape(-1)[2 * 9 + 1] = 0.8
    outputs["bbox_8"].reshape(-1, 4)[2 * 9 + 1] = [0.5, 1, 2, 1.5]
    reading = read(Decoder.SCRFD, (64, 32), outputs)
    np.testing.assert_allclose(corners(reading), [[(8 - 4) * 2, 0, (8 + 16) * 2, (8 + 12) * 2]])


def test_retinaface_gives_offsets_to_its_prior_boxes() -> None:
    count = 2 * (32 + 8 + 2)
    outputs = {
        "loc": np.zeros((1, count, 4), np.float32),
        "conf": np.zeros((1, count, 2), np.float32),
        "landms": np.zeros((1, count, 10), np.float32),
    }
    outputs["conf"][0, 2 * 9] = 0.1, 0.9
    outputs["loc"][0, 2 * 9] = [1, 0, np.log(2) / 0.2, 0]
    reading = read(Decoder.RETINAFACE, (64, 32), outputs)
    centre, half = np.array([12 + 1.6, 12.0]), np.array([16.0, 8.0])
    expected = np.concatenate([centre - half, centre + half]) * 2
    np.testing.assert_allclose(corners(reading), [np.clip(expected, 0, [128, 64, 128, 64])], rtol=1e-5)


def test_nanodet_weighs_distances_by_their_probabilities() -> None:
    values = np.zeros((1, 32 + 8 + 2 + 1, 3 + 32), np.float32)
    values[0, 9, :3] = 0.1, 0.2, 0.9
    for side, step in enumerate((1, 0, 2, 3)):
        values[0, 9, 3 + 8 * side + step] = 50
    reading = read(Decoder.NANODET, (64, 32), {"output": values})
    np.testing.assert_allclose(corners(reading), [[0, 16, 48, 64]], atol=1e-4)
    assert reading.boxes[0].label == 2


@pytest.mark.parametrize("has_batch", [True, False])
@pytest.mark.parametrize("columns", [32, 44])
def test_nanodet_of_three_strides_counts_from_the_centre_of_a_cell(columns: int, has_batch: bool) -> None:
    outputs = {}
    for stride, count in ((8, 32), (16, 8), (32, 2)):
        for name, width in (("cls", 80), ("dis", columns)):
            outputs[f"{name}_{stride}"] = np.zeros((1, count, width) if has_batch else (count, width), np.float32)
    outputs["cls_16"].reshape(-1, 80)[5, 2] = 0.9
    outputs["cls_16"].reshape(-1, 80)[5, 7] = 0.6
    for side, step in enumerate((1, 0, 2, 3)):
        outputs["dis_16"].reshape(-1, 4, columns // 4)[5, side, step] = 50
    ports = [OutputSpec(name, values.shape) for name, values in reversed(outputs.items())]
    assert family_of(Decoder.AUTO, ports, (64, 32)).usual_labels(ports) == COCO
    reading = read(Decoder.NANODET, (64, 32), outputs)
    np.testing.assert_allclose(corners(reading), [[2 * 8, 2 * 24, 2 * 56, 64]] * 2, atol=1e-4)
    assert [box.label for box in reading.boxes] == [2, 7], "a box may be several things"


@pytest.mark.parametrize("side", [128, 256])
def test_blazeface_counts_from_its_anchors(side: int) -> None:
    outputs = {"boxes": np.zeros((1, 896, 16), np.float32), "scores": np.full((1, 896, 1), -200, np.float32)}
    for place, x in ((2 * (16 * 3 + 5) + 1, 4), (512 + 6 * (8 * 2 + 1), -4)):
        outputs["scores"][0, place], outputs["boxes"][0, place, :4] = 200, [x, 0, 8, 16]
    ports = [OutputSpec(name, values.shape) for name, values in outputs.items()]
    assert family_of(Decoder.AUTO, ports, (side, side)).name is Decoder.BLAZEFACE
    reading = read(Decoder.BLAZEFACE, (side, side), outputs)
    centres = [(5.5 / 16 * side + 4, 3.5 / 16 * side), (1.5 / 8 * side - 4, 2.5 / 8 * side)]
    np.testing.assert_allclose(
        corners(reading), [[2 * (x - 4), 2 * (y - 8), 2 * (x + 4), 2 * (y + 8)] for x, y in centres]
    )
    assert [box.score for box in reading.boxes] == [1, 1]


def test_families_that_look_alike_are_told_by_the_size_of_the_input() -> None:
    def told(shape: tuple[int, ...]) -> Decoder:
        return family_of(Decoder.AUTO, [OutputSpec("output", shape)], (416, 416)).name

    assert told((1, 3549, 85)) is Decoder.YOLOX
    assert told((1, 10647, 85)) is Decoder.YOLOV5
    assert told((1, 84, 3549)) is Decoder.YOLOV8
    assert told((1, 3598, 112)) is Decoder.NANODET
