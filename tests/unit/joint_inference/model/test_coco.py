"""Hard samples as a data set in COCO's form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.inference.prediction import Box, Prediction
from app.joint_inference.model.coco import CocoDataset, NoDataset
from app.joint_inference.model.tally import Sample, Source

EDGE = Prediction(boxes=(Box(0, 0, 10, 10, 0.6, 1),))
CLOUD = Prediction(boxes=(Box(100, 50, 300, 150, 0.9, 0), Box(0, 0, 64, 48, 0.5, 7)))


def sample(**changes: Any) -> Sample:
    facts: dict[str, Any] = {
        "source": Source.CLOUD,
        "edge": EDGE,
        "cloud": CLOUD,
        "labels": ("person", "car"),
        **changes,
    }
    return Sample("1", "2026-11-26T12:00:00.000Z", 640, 480, "unsure", 0.5, **facts)


def test_boxes_of_the_cloud_are_proposals_in_pixels_of_the_kept_picture() -> None:
    dataset = CocoDataset.read(b"")
    dataset.add("images/000001.jpg", sample(), (320, 240), "00ff00ff00ff00ff")
    kept = json.loads(dataset.write())
    (image,) = kept["images"]
    assert (image["id"], image["file_name"], image["width"], image["height"]) == (1, "images/000001.jpg", 320, 240)
    assert [(one["bbox"], one["area"], one["score"]) for one in kept["annotations"]] == [
        ([50.0, 25.0, 100.0, 50.0], 5000.0, 0.9),
        ([0.0, 0.0, 32.0, 24.0], 768.0, 0.5),
    ]
    assert kept["categories"] == [{"id": 1, "name": "person"}, {"id": 2, "name": "7"}]


def test_key_points_are_flat_and_those_that_are_invisible_have_no_place() -> None:
    box = Box(0, 0, 100, 100, 0.9, 0, ((10.0, 20.0, 0.9), (30.0, 40.0, 0.2)))
    dataset = CocoDataset.read(b"")
    dataset.add("a.jpg", sample(cloud=Prediction(boxes=(box,))), (320, 240), "")
    dataset.add("b.jpg", sample(), (320, 240), "")
    first, second, _ = dataset.document["annotations"]
    assert (first["keypoints"], first["num_keypoints"]) == ([5, 10, 2, 0, 0, 0], 1)
    assert "keypoints" not in second


def test_a_mask_is_the_segmentation_with_its_own_area() -> None:
    box = Box(0, 0, 100, 100, 0.9, 0, (), (((10.0, 20.0), (50.0, 20.0), (50.0, 60.0), (10.0, 60.0)),))
    dataset = CocoDataset.read(b"")
    dataset.add("a.jpg", sample(cloud=Prediction(boxes=(box,))), (320, 240), "")
    dataset.add("b.jpg", sample(), (320, 240), "")
    first, second, _ = dataset.document["annotations"]
    assert (first["segmentation"], first["area"]) == ([[5, 10, 25, 10, 25, 30, 5, 30]], 400)
    assert "segmentation" not in second


def test_without_an_answer_of_the_cloud_the_edges_counts_and_a_class_is_of_the_whole_picture() -> None:
    dataset = CocoDataset.read(b"")
    dataset.add("a.jpg", sample(cloud=None), (640, 480), "")
    dataset.add("b.jpg", sample(cloud=Prediction(probabilities=(0.25, 0.75))), (320, 240), "")
    first, second = dataset.document["annotations"]
    assert (first["image_id"], first["bbox"]) == (1, [0, 0, 10, 10])
    assert (second["image_id"], second["bbox"], second["score"]) == (2, [0, 0, 320, 240], 0.75)
    assert first["category_id"] == second["category_id"], "a class is named once"


def test_pictures_that_hardly_differ_are_alike() -> None:
    dataset = CocoDataset.read(b"")
    dataset.add("a.jpg", sample(), (320, 240), "0000000000000000")
    assert dataset.has_alike("000000000000001f")
    assert not dataset.has_alike("000000000000003f")
    assert not dataset.has_alike("")
    assert not dataset.has_alike("no hash")


def test_what_somebody_has_checked_stays_and_numbers_go_on() -> None:
    """Also a category and keys of their own."""
    before = {
        "info": {"year": 2026},
        "images": [{"id": 41, "file_name": "mine.jpg"}],
        "annotations": [],
        "categories": [{"id": 9, "name": "person"}],
    }
    dataset = CocoDataset.read(json.dumps(before).encode())
    assert dataset.next_number() == 42
    dataset.add("images/000042.jpg", sample(), (640, 480), "")
    kept = json.loads(dataset.write())
    assert (kept["info"], kept["images"][0], kept["images"][1]["id"]) == (before["info"], before["images"][0], 42)
    assert kept["annotations"][0]["category_id"] == 9


@pytest.mark.parametrize(
    "text", [b"no json", b"[]", b'{"images": {}}', b'{"images": [{}]}', b'{"images": [{"id": "1"}]}']
)
def test_what_is_no_data_set_is_refused(text: bytes) -> None:
    with pytest.raises(NoDataset):
        CocoDataset.read(text)
