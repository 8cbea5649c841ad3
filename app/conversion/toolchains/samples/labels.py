"""The true content of reference pictures: classes from CSV, boxes from COCO JSON. Pure, except for reading the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, PositiveInt, ValidationError

from app.conversion.errors import BadLabels
from app.conversion.sample_kinds import LABELS, flatten_path
from app.inference.preprocessing import Size
from app.kit.text.plain_text import MOST_DIGITS, reason_of
from app.kit.text.untrusted_csv import read_records
from app.kit.text.untrusted_json import read_json

COLUMNS = ("file", "label")
Id = int | str


class CocoCategory(BaseModel):
    id: int


class CocoImage(BaseModel):
    id: Id
    file_name: str
    width: PositiveInt
    height: PositiveInt


class CocoAnnotation(BaseModel):
    image_id: Id
    category_id: int
    bbox: tuple[float, float, float, float]
    """Left, top, width, height in pixels."""
    iscrowd: Any = 0


class Coco(BaseModel):
    """The parts of COCO's JSON that are used."""

    categories: list[CocoCategory]
    images: list[CocoImage]
    annotations: list[CocoAnnotation]


@dataclass(frozen=True)
class LabeledBox:
    """A labeled box; its corners are in pixels of the picture."""

    corners: tuple[float, float, float, float]
    label: int
    """Index of the class."""
    is_crowd: bool = False
    """Many objects of a kind in one box: detections of some of them count as neither right nor wrong."""


@dataclass
class PictureLabels:
    label: int = -1
    """Index of the class, for a picture of a single object."""
    size: Size = (0, 0)
    boxes: list[LabeledBox] = field(default_factory=list)


@dataclass(frozen=True)
class Labels:
    """The labels of pictures, by their flattened names."""

    kind: Literal["top1", "map"]
    pictures: Mapping[str, PictureLabels]

    def of(self, sample: str) -> PictureLabels | None:
        """Returns the labels of a sample by its name below the folder, or by the file name alone."""
        name = flatten_path(sample)
        return self.pictures.get(name) or self.pictures.get(name.rpartition("__")[2])


def labels_of(folder: Path) -> Labels | None:
    """Returns the labels beside the samples; None if there are none.

    Raises:
        BadLabels: They cannot be read.
    """
    path = next((folder / name for name in LABELS if (folder / name).is_file()), None)
    return read_labels(path) if path else None


def read_labels(path: Path) -> Labels:
    """Reads labels.csv or labels.json.

    Raises:
        BadLabels: It is of another form.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        return (
            _read_classes(text)
            if path.suffix == ".csv"
            else _read_boxes(Coco.model_validate(read_json(text, is_strict=True)))
        )
    except ValueError as error:
        raise BadLabels(
            f"{path.name} cannot be read: {_describe_reason(error)}",
            hint="labels.csv has the columns file,label (the class's index); labels.json is COCO's, with images (id, "
            "file_name, width, height), annotations (image_id, category_id, bbox) and categories (id).",
        ) from error


def _describe_reason(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is no text in UTF-8"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"
    return reason_of(error)


def _read_classes(text: str) -> Labels:
    columns, rows = read_records(text)
    if not set(COLUMNS) <= set(columns):
        raise ValueError(f"its columns are {', '.join(columns) or 'none'}")
    pictures = {}
    for line, row in rows:
        label = row["label"].strip()
        if not row["file"] or not label.isdecimal() or len(label) > MOST_DIGITS:
            raise ValueError(f"line {line}: a file and the index of a class are needed, not {label[:40]!r}")
        pictures[flatten_path(row["file"])] = PictureLabels(int(label))
    return Labels("top1", pictures)


def _read_boxes(coco: Coco) -> Labels:
    """Reads the boxes. Categories in the order of their ids are the model's classes."""
    classes = {key: place for place, key in enumerate(sorted(each.id for each in coco.categories))}
    by_id: dict[Id, PictureLabels] = {}
    pictures: dict[str, PictureLabels] = {}
    for image in coco.images:
        by_id[image.id] = pictures[flatten_path(image.file_name)] = PictureLabels(size=(image.width, image.height))
    for each in coco.annotations:
        if each.image_id not in by_id or each.category_id not in classes:
            raise ValueError(f"it has no image {each.image_id!r}, or no category {each.category_id}")
        left, top, wide, high = each.bbox
        corners = (left, top, left + wide, top + high)
        box = LabeledBox(corners, classes[each.category_id], bool(each.iscrowd))
        by_id[each.image_id].boxes.append(box)
    return Labels("map", pictures)
