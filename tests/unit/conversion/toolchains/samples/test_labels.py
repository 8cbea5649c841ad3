"""What pictures truly show, as CSV and as COCO JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.conversion.errors import BadLabels
from app.conversion.toolchains.samples.labels import labels_of, read_labels


def coco(**changes: Any) -> dict[str, Any]:
    return {
        "images": [{"id": 7, "file_name": "day/a b.jpg", "width": 40, "height": 30}],
        "annotations": [{"image_id": 7, "category_id": 90, "bbox": [1, 2, 10, 20], "iscrowd": 1}],
        "categories": [{"id": 90, "name": "dog"}, {"id": 3, "name": "car"}],
    } | changes


def written(folder: Path, content: str | dict[str, Any]) -> Path:
    path = folder / ("labels.csv" if isinstance(content, str) else "labels.json")
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_a_csv_gives_classes_by_the_names_of_the_archive_or_by_file_names(tmp_path: Path) -> None:
    written(tmp_path, "\ufefffile,label,who\nday/a.jpg,3,me\nb.jpg,0,me\n")
    labels = labels_of(tmp_path)
    assert labels is not None and labels.kind == "top1"
    pictures = [labels.of(name) for name in ("day__a.jpg", "night__b.jpg", "night__a.jpg", "c.jpg")]
    assert [each.label if each else None for each in pictures] == [3, 0, None, None]


def test_categories_in_the_order_of_their_ids_are_the_classes(tmp_path: Path) -> None:
    labels = read_labels(written(tmp_path, coco()))
    picture = labels.of("day__a_b.jpg")
    assert labels.kind == "map" and picture is not None and picture.size == (40, 30)
    (box,) = picture.boxes
    assert (box.corners, box.label, box.is_crowd) == ((1.0, 2.0, 11.0, 22.0), 1, True)


def test_without_labels_there_are_none(tmp_path: Path) -> None:
    assert labels_of(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        "name,class\na.jpg,1\n",
        "file,label\na.jpg,cat\n",
        "file,label\na.jpg\n",
        "file,label\na.jpg,-1\n",
        f"file,label\na.jpg,{'1' * 5000}\n",
        f"file,label\n{'a' * 200_000},1\n",
        "file,label\n,1\n",
        "",
        coco(images=[{"id": 7, "file_name": "a.jpg"}]),
        coco(images=[{"id": 7, "file_name": "a.jpg", "width": 0, "height": 5}]),
        coco(annotations=[{"image_id": 8, "category_id": 3, "bbox": [0, 0, 1, 1]}]),
        coco(annotations=[{"image_id": 7, "category_id": 4, "bbox": [0, 0, 1, 1]}]),
        coco(annotations=[{"image_id": 7, "category_id": 3, "bbox": [0, 0, 1]}]),
        coco(annotations=7),
        coco(images=[{"id": 7, "file_name": "a.jpg", "width": float("inf"), "height": 5}]),
        coco(annotations=[{"image_id": 7, "category_id": 3, "bbox": [0, 0, 1, float("nan")]}]),
        coco(annotations=[{"image_id": [7], "category_id": 3, "bbox": [0, 0, 1, 1]}]),
        {},
    ],
)
def test_what_cannot_be_read_is_refused_with_the_form_that_is_taken(tmp_path: Path, content: Any) -> None:
    with pytest.raises(BadLabels, match="cannot be read") as refused:
        read_labels(written(tmp_path, content))
    assert "file,label" in refused.value.hint
    assert not re.search(r"Error|object|None", refused.value.message), "in words, not in those of Python"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("file,label\na.jpg,1\n\nb.jpg,cat\n", "line 4: a file and the index of a class are needed, not 'cat'"),
        ("a;b\n", "its columns are a;b"),
        ({}, "categories: Field required"),
        (coco(images=[{"id": 7, "file_name": "a", "width": 0, "height": 5}]), "images.0.width: Input should be gr"),
    ],
)
def test_the_place_is_named(tmp_path: Path, content: Any, reason: str) -> None:
    with pytest.raises(BadLabels, match=f"cannot be read: {re.escape(reason)}"):
        read_labels(written(tmp_path, content))


def test_text_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_bytes("file,label\nä.jpg,1\n".encode("latin-1"))
    with pytest.raises(BadLabels, match="no text in UTF-8"):
        labels_of(tmp_path)
