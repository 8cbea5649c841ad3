"""What is true of pictures by annotations in COCO's form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.inference.prediction import Box
from app.joint_inference.calibration.labels import ModelClasses, read_annotations
from app.joint_inference.calibration.predictions import GroundTruth
from app.joint_inference.errors import BadSamples


def text(*annotations: dict[str, Any]) -> bytes:
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in (1, 2)]
    categories = [{"id": 4, "name": "car"}, {"id": 5, "name": "7"}, {"id": 6, "name": "cow"}]
    listed = [{"id": number, **one} for number, one in enumerate(annotations, 1)]
    return json.dumps({"images": images, "categories": categories, "annotations": listed}).encode()


def box(**changes: Any) -> dict[str, Any]:
    return {"image_id": 1, "category_id": 4, "bbox": [10, 20, 30, 40], **changes}


def test_boxes_have_corners_and_the_models_indices_and_an_empty_picture_shows_nothing() -> None:
    truths = read_annotations(text(box(), box(category_id=5), box(iscrowd=1)), ModelClasses(["person", "car"]))
    assert truths["1.jpg"] == GroundTruth(None, (Box(10, 20, 40, 60, 1.0, 1), Box(10, 20, 40, 60, 1.0, 7)))
    assert truths["2.jpg"] == GroundTruth(None, ())


def test_a_class_of_the_whole_picture_is_no_box() -> None:
    truths = read_annotations(text(box(is_whole_picture=True)), ModelClasses(["", "car"]))
    assert truths["1.jpg"] == GroundTruth(1)


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        text(box(category_id=6)),
        text(box(category_id=9)),
        text(box(image_id=9)),
        text(box(bbox=[1])),
        text(box(bbox="box")),
    ],
)
def test_what_is_no_annotation_is_refused(document: bytes) -> None:
    with pytest.raises(BadSamples):
        read_annotations(document, ModelClasses(["", "car"]))
