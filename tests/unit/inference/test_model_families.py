"""Families of models are told by what shows in their graphs."""

from __future__ import annotations

import pytest

from app.inference.model_families import GraphSignature, family_table
from app.inference.preprocessing import Shape


def signature(side: int | None, *outputs: Shape, width: int | None = None, **fields: object) -> GraphSignature:
    shape = (1, 3, side, width or side)
    return GraphSignature(input=shape, order="NCHW", outputs=outputs, **fields)  # type: ignore[arg-type]


CONV = frozenset({"Conv", "Relu"})
FASTEST = frozenset({"Softmax", "Sigmoid", "Concat", "Conv"})
FSA = frozenset({"Tanh", "Sigmoid", "MatMul", "Pow", "Sqrt", "Exp", "Gemm", "Conv"})
VIT = frozenset({"Conv", "MatMul", "Softmax", "LayerNormalization"})
TO_64 = (8, 16, 32, 64)


def cells(side: int, values: int, *strides: int) -> list[Shape]:
    return [(1, (-(-side // stride)) ** 2, values) for stride in strides]


FACES_9 = tuple((1, rows, last) for last in (1, 4, 10) for rows in (12800, 3200, 800))
KNOWN = (
    ("yolov8", "rgb_unit", "letterbox", signature(640, (1, 84, 8400))),
    ("yolov8", "rgb_unit", "letterbox", signature(416, (1, 5, 3549))),
    ("yolov8-pose", "rgb_unit", "letterbox", signature(640, (1, 56, 8400))),
    ("yolov8-seg", "rgb_unit", "letterbox", signature(640, (1, 116, 8400), (1, 32, 160, 160))),
    ("yolov5", "rgb_unit", "letterbox", signature(640, (1, 25200, 85))),
    ("yolov5", "rgb_unit", "letterbox", signature(320, (1, 6300, 85))),
    ("yolov10", "rgb_unit", "letterbox", signature(640, (1, 300, 6))),
    ("yolox", "bgr_bytes", "letterbox", signature(416, (1, 3549, 85), first="Slice")),
    ("yolov6", "rgb_unit", "letterbox", signature(640, (1, 8400, 85), first="Conv")),
    ("nanodet-plus", "bgr_imagenet", "stretch", signature(416, (1, 3598, 112))),
    ("nanodet-plus", "bgr_imagenet", "stretch", signature(320, (1, 2125, 112))),
    ("scrfd", "rgb_shift128", "letterbox", signature(640, *FACES_9)),
    ("scrfd", "rgb_shift128", "letterbox", signature(640, *(shape[1:] for shape in FACES_9))),
    ("retinaface", "bgr_caffe", "stretch", signature(640, (1, 16800, 4), (1, 16800, 2), (1, 16800, 10))),
    ("ultraface", "rgb_shift127", "stretch", signature(240, (1, 4420, 2), (1, 4420, 4), width=320)),
    ("ssd", "rgb_shift127", "stretch", signature(300, (1, 3000, 21), (1, 3000, 4))),
    ("ssd", "rgb_caffe", "stretch", signature(300, (1, 8732, 81), (1, 8732, 4))),
    ("ssd", "rgb_signed", "stretch", signature(320, (1, 3234, 91), (1, 3234, 4))),
    ("ssd", "rgb_signed", "stretch", signature(300, (1, 1917, 4), (1, 1917, 91))),
    ("rt-detr", "rgb_unit", "stretch", signature(640, (1, 300), (1, 300, 4), (1, 300))),
    ("ppocr-rec", "bgr_signed", "stretch", signature(48, (1, 40, 6625), width=320)),
    ("ppocr-cls", "bgr_signed", "stretch", signature(48, (1, 2), width=192)),
    ("face-embedding", "rgb_signed", "stretch", signature(112, (1, 512))),
    ("imagenet-classifier", "rgb_imagenet", "stretch", signature(224, (1, 1000), producer="pytorch", operators=CONV)),
    ("pose-simcc", "rgb_imagenet", "stretch", signature(256, (1, 17, 384), (1, 17, 512), width=192)),
    ("ultralytics", "rgb_unit", "letterbox", signature(640, (1, 9, 9, 9), metadata={"author": "Ultralytics"})),
    ("nanodet", "bgr_imagenet", "stretch", signature(320, *cells(320, 80, 8, 16, 32), *cells(320, 44, 8, 16, 32))),
    ("picodet", "rgb_imagenet", "stretch", signature(320, *cells(320, 80, *TO_64), *cells(320, 32, *TO_64))),
    ("fastestdet", "bgr_unit", "stretch", signature(352, (1, 85, 22, 22), operators=FASTEST)),
    ("fsanet", "bgr_shift128", "stretch", signature(64, (1, 3), operators=FSA)),
    ("mtcnn", "rgb_shift128", "stretch", signature(24, (1, 4), (1, 2))),
    ("mtcnn", "rgb_shift128", "stretch", signature(48, (1, 4), (1, 10), (1, 2))),
    ("blazeface", "rgb_signed", "stretch", signature(128, (1, 896, 16), (1, 896, 1))),
    ("palm-detection", "rgb_unit", "stretch", signature(192, (1, 2016, 18), (1, 2016, 1))),
    ("gender-age", "rgb_bytes", "stretch", signature(96, (1, 3), names=("fc1",))),
    ("face-landmarks", "rgb_bytes", "stretch", signature(192, (1, 212), names=("fc1",))),
    ("anti-spoofing", "bgr_bytes", "stretch", signature(80, (1, 3), operators=CONV)),
    ("sixdrepnet", "rgb_imagenet", "stretch", signature(224, (1, 3, 3), operators=CONV)),
    ("person-embedding", "rgb_imagenet", "stretch", signature(256, (1, 512), width=128, operators=CONV)),
    ("detr", "rgb_imagenet", "stretch", signature(800, (1, 100, 92), (1, 100, 4))),
    ("rt-detr", "rgb_unit", "stretch", signature(640, (1, 300, 80), (1, 300, 4))),
    ("craft", "rgb_imagenet", "stretch", signature(640, (1, 320, 320, 2), (1, 32, 320, 320))),
    ("lprnet", "bgr_shift128", "stretch", signature(24, (1, 68, 18), width=94)),
    ("lprnet", "bgr_shift128", "stretch", signature(24, (68, 18), width=94)),
    ("face-landmarks", "rgb_unit", "stretch", signature(112, (None, 136))),
    ("yolo-fastestv2", "bgr_unit", "stretch", signature(352, (605, 95))),
    ("depth", "rgb_imagenet", "stretch", signature(518, (1, 518, 518))),
    ("segmentation", "rgb_imagenet", "stretch", signature(512, (1, 19, 512, 512), operators=CONV | {"Resize"})),
    ("pose-heatmap", "rgb_imagenet", "stretch", signature(256, (1, 17, 64, 48), width=192)),
    ("vit-augreg", "rgb_imagenet", "stretch", signature(224, (1, 1000), operators=VIT)),
)


@pytest.mark.parametrize(("side", "classifier"), [(1, "imagenet-classifier"), (900, None)])
def test_a_table_of_many_rows_is_no_answer_of_a_classifier(side: int, classifier: str | None) -> None:
    family = family_table().family_of(signature(224, (side, 1000), producer="pytorch", operators=CONV))
    assert (family and family.name) == classifier


@pytest.mark.parametrize(("name", "preset", "resize", "graph"), KNOWN)
def test_a_family_is_told_by_its_outputs(name: str, preset: str, resize: str, graph: GraphSignature) -> None:
    family = family_table().family_of(graph)
    assert family is not None
    assert (family.name, family.resize) == (name, resize)
    assert max(family.prepared, key=lambda each: family.prepared[each]) == preset


def test_an_output_more_or_of_another_size_is_another_model() -> None:
    assert family_table().family_of(signature(640, (1, 84, 8399))) is None
    assert family_table().family_of(signature(640, (1, 84, 8400), (1, 7, 7, 7, 7))) is None


def test_a_number_of_cells_of_open_sides_is_no_family_of_fixed_numbers() -> None:
    family = family_table().family_of(signature(None, (None, 22, None), first="Conv"))
    assert family is not None and family.name == "yolov8", "22 values for each of an open number of cells"


def test_a_classifier_of_three_classes_is_not_taken_for_what_has_three_values_too() -> None:
    for side in (64, 96, 224):
        family = family_table().family_of(signature(side, (1, 3), operators=CONV))
        assert family is not None and family.name == "classifier"


def test_a_family_of_color_pictures_is_none_for_gray_ones() -> None:
    gray = GraphSignature(input=(1, 1, 64, None), order="NCHW", outputs=((None, 1, 8210),), names=("x.tmp_0",))
    assert family_table().family_of(gray) is None
    plates = GraphSignature(input=(1, 1, 32, 100), order="NCHW", outputs=((26, 1, 37),))
    family = family_table().family_of(plates)
    assert family is not None and family.name == "crnn"
    faces = GraphSignature(input=(1, 1, 64, 64), order="NCHW", outputs=((1, 8),), names=("Plus692_Output_0",))
    family = family_table().family_of(faces)
    assert family is not None and family.name == "emotion-ferplus"


def test_open_sides_fit_as_long_as_enough_others_tell_the_family() -> None:
    twelve = [(None, None, last) for last in (1, 1, 1, 1, 1, 1, 4, 4, 4, 10, 10, 10)]
    family = family_table().family_of(signature(None, *twelve))
    assert family is not None
    assert family.name == "yunet"
    assert family_table().family_of(signature(None, (None, None, None))) is None, "what is open proves nothing"


@pytest.mark.parametrize(
    ("shape", "operators", "name"),
    [
        ((None, 1, None, None), {"Sigmoid", "Conv", "ConvTranspose"}, "ppocr-det"),
        ((None, None, 97), {"Softmax", "Conv"}, "ppocr-rec"),
        ((None, 2), {"Softmax", "Conv"}, "paddle-two-classes"),
        ((None, 4), {"Softmax", "Conv"}, "paddle-classifier"),
    ],
)
def test_paddles_names_tell_a_family_where_all_sides_are_open(shape: Shape, operators: set[str], name: str) -> None:
    graph = signature(None, shape, names=("x", "softmax_0.tmp_0"), operators=frozenset(operators))
    family = family_table().family_of(graph)
    assert family is not None
    assert family.name == name


def test_every_preset_of_the_table_exists_and_no_family_promises_more_than_all() -> None:
    table = family_table()
    for family in table.families:
        assert family.prepared.keys() <= table.presets.keys()
        assert sum(family.prepared.values()) <= 1
        assert family.source
    for weights in table.usual.values():
        assert weights.keys() <= table.presets.keys()
        assert sum(weights.values()) == pytest.approx(1)
