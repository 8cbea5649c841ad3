"""What is true of pictures by a file for each of them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from app.inference.picture_codec import encode
from app.inference.prediction import Box
from app.joint_inference.calibration.labels import MAX_BYTES
from app.joint_inference.calibration.predictions import UNKNOWN, GroundTruth
from app.joint_inference.calibration.samples import read_samples
from app.joint_inference.errors import BadSamples

NAMES = ("person", "car")
CAR = Box(10.0, 5.0, 30.0, 15.0, 1.0, 1)
OBJECT = (
    "<object><name>car</name><difficult>{}</difficult><bndbox><xmin>10</xmin><ymin>5</ymin><xmax>30</xmax>"
    "<ymax>15</ymax></bndbox></object>"
)
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa">]><annotation>&a;</annotation>'


def picture() -> bytes:
    """40 × 20 pixels."""
    return encode(np.zeros((20, 40, 3), np.uint8), 90)[0]


def voc(*objects: str) -> str:
    return f"<annotation><size><width>40</width></size>{''.join(objects)}</annotation>"


def truths(folder: Path, members: dict[str, bytes | str], *names: str) -> list[GroundTruth]:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    (folder / "set.zip").write_bytes(file.getvalue())
    return [sample.truth for sample in read_samples(folder / "set.zip", names or NAMES)]


@pytest.mark.parametrize(
    ("image", "label"),
    [("a.png", "a.txt"), ("train/images/a.png", "train/labels/a.txt"), ("images/train/a.png", "labels/train/a.txt")],
)
def test_numbers_of_yolo_are_shares_of_the_picture_and_one_without_a_file_is_empty(
    tmp_path: Path, image: str, label: str
) -> None:
    members = {image: picture(), image.replace("a.png", "b.png"): picture(), label: "1 0.5 0.5 0.5 0.5\n\n"}
    assert truths(tmp_path, members) == [GroundTruth(boxes=(CAR,)), GroundTruth(boxes=())]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("classes.txt", "car\nperson\n"),
        ("data.yaml", "names: [car, person]"),
        ("data.yaml", "names: {0: car}"),
        ("data.yaml", "path: x\nnames:\n  0: car\n  1: person\n"),
    ],
)
def test_names_of_yolo_are_those_of_the_models(tmp_path: Path, file: str, content: str) -> None:
    members = {"a.png": picture(), "a.txt": "0 0.5 0.5 0.5 0.5", file: content}
    assert truths(tmp_path, members) == [GroundTruth(boxes=(CAR,))]


def test_voc_has_corners_in_pixels_and_what_is_difficult_is_left_out(tmp_path: Path) -> None:
    members = {"JPEGImages/a.png": picture(), "Annotations/a.xml": voc(OBJECT.format(0), OBJECT.format(1))}
    members |= {"JPEGImages/b.png": picture(), "Annotations/b.xml": voc(), "JPEGImages/c.png": picture()}
    assert truths(tmp_path, members) == [GroundTruth(boxes=(CAR,)), GroundTruth(boxes=()), UNKNOWN]


def test_a_text_that_describes_no_picture_is_no_label(tmp_path: Path) -> None:
    assert truths(tmp_path, {"a.png": picture(), "readme.txt": "hello"}) == [UNKNOWN]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("a.txt", "1 0.5 0.5\n", "a.txt, line 1: a class and four numbers"),
        ("a.txt", "1 0 0 nan 0\n", "a.txt, line 1"),
        ("a.txt", "-1 0 0 1 1\n", "a.txt, line 1"),
        ("a.txt", " " * (MAX_BYTES + 1), "more than 256 KiB"),
        ("a.xml", voc(OBJECT.format(0).replace("car", "cow")), "know no class 'cow'"),
        ("a.xml", voc(OBJECT.format(0).replace("30", "wide")), "not in VOC's form"),
        ("a.xml", voc(OBJECT.format(0).replace("30", "nan")), "not in VOC's form"),
        ("a.xml", voc(OBJECT.format(0).replace("30", "1e999")), "not in VOC's form"),
        ("a.xml", "<annotation>", "not in VOC's form"),
        ("a.xml", BOMB, "not in VOC's form"),
    ],
)
def test_labels_that_cannot_be_meant_are_refused_with_their_file(
    tmp_path: Path, file: str, content: str, message: str
) -> None:
    with pytest.raises(BadSamples, match=message):
        truths(tmp_path, {"a.png": picture(), file: content})


def test_classes_of_yolo_without_a_list_of_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSamples, match=r"data\.yaml has no list"):
        truths(tmp_path, {"a.png": picture(), "a.txt": "0 0 0 1 1", "data.yaml": "path: x"})
