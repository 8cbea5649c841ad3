"""The true content of reference pictures: classes from CSV, boxes from COCO JSON. Pure, except for reading the file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from app.conversion.errors import BadLabels
from app.conversion.sample_kinds import LABELS, flattened
from app.inference.preprocessing import Size
from app.kit.text.untrusted_json import read_json

COLUMNS = ("file", "label")


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
        name = flattened(sample)
        return self.pictures.get(name) or self.pictures.get(name.rpartition("__")[2])


def labels_of(folder: Path) -> Labels | None:
    """Returns the labels beside the samples; None if there are none. Raises BadLabels."""
    path = next((folder / name for name in LABELS if (folder / name).is_file()), None)
    return read_labels(path) if path else None


def read_labels(path: Path) -> Labels:
    """Reads labels.csv or labels.json. Raises BadLabels."""
    try:
        return _classes(path) if path.suffix == ".csv" else _boxes(read_json(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise BadLabels(
            f"{path.name} cannot be read: {reason}",
            hint="labels.csv has the columns file,label (the class's index); labels.json is COCO's, with images (id, "
            "file_name, width, height), annotations (image_id, category_id, bbox) and categories (id).",
        ) from error


def _classes(path: Path) -> Labels:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        if not set(COLUMNS) <= set(rows.fieldnames or ()):
            raise ValueError(f"its columns are {', '.join(rows.fieldnames or ())}")
        pictures = {flattened(row["file"]): PictureLabels(int(row["label"])) for row in rows}
    if any(picture.label < 0 for picture in pictures.values()):
        raise ValueError("the index of a class is below 0")
    return Labels("top1", pictures)


def _boxes(coco: Mapping[str, Any]) -> Labels:
    """Reads the boxes. Categories in the order of their ids are the model's classes."""
    classes = {key: place for place, key in enumerate(sorted(int(each["id"]) for each in coco["categories"]))}
    by_id: dict[Any, PictureLabels] = {}
    pictures: dict[str, PictureLabels] = {}
    for image in coco["images"]:
        width, height = int(image["width"]), int(image["height"])
        if min(width, height) <= 0:
            raise ValueError("a picture has no size")
        by_id[image["id"]] = pictures[flattened(str(image["file_name"]))] = PictureLabels(size=(width, height))
    for each in coco["annotations"]:
        left, top, wide, high = (float(value) for value in each["bbox"])
        box = LabeledBox(
            (left, top, left + wide, top + high), classes[int(each["category_id"])], bool(each.get("iscrowd"))
        )
        by_id[each["image_id"]].boxes.append(box)
    return Labels("map", pictures)
