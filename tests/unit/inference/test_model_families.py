"""Families of models are told by what shows in their graphs."""

from __future__ import annotations

import pytest

from app.inference.model_families import GraphSignature, family_table
from app.inference.preprocessing import Shape


def signature(side: int | None, *outputs: Shape, width: int | None = None, **fields: object) -> GraphSignature:
    shape = (1, 3, side, width or side)
    return GraphSignature(input=shape, order="NCHW", outputs=outputs, **fields)  # type: ignore[arg-type]


CONV = frozenset({"Conv", "Relu"})
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
    ("ppocr-rec", "bgr_signed", "stretch", signature(48, (1, 40, 6625), width=320)),
    ("ppocr-cls", "bgr_signed", "stretch", signature(48, (1, 2), width=192)),
    ("face-embedding", "rgb_signed", "stretch", signature(112, (1, 512))),
    ("imagenet-classifier", "rgb_imagenet", "stretch", signature(224, (1, 1000), producer="pytorch", operators=CONV)),
    ("pose-simcc", "rgb_imagenet", "stretch", signature(256, (1, 17, 384), (1, 17, 512), width=192)),
    ("ultralytics", "rgb_unit", "letterbox", signature(640, (1, 9, 9, 9), metadata={"author": "Ultralytics"})),
)


@pytest.mark.parametrize(("name", "preset", "resize", "graph"), KNOWN)
def test_a_family_is_told_by_its_outputs(name: str, preset: str, resize: str, graph: GraphSignature) -> None:
    family = family_table().family_of(graph)
    assert family is not None
    assert (family.name, family.resize) == (name, resize)
    assert max(family.prepared, key=lambda each: family.prepared[each]) == preset


def test_an_output_more_or_of_another_size_is_another_model() -> None:
    assert family_table().family_of(signature(640, (1, 84, 8399))) is None
    assert family_table().family_of(signature(640, (1, 84, 8400), (1, 7, 7, 7, 7))) is None


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
