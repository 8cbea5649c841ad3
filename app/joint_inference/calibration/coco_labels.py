"""The true content of a set's pictures, from its annotations in COCO format. Runs in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.inference.prediction import Box
from app.joint_inference.calibration.predictions import GroundTruth
from app.joint_inference.errors import BadSamples
from app.joint_inference.model.coco import WHOLE, CocoDataset, NoDataset
from app.kit.text.plain_text import MOST_DIGITS

ANNOTATIONS = "annotations.json"


def read_annotations(text: bytes, class_of: Mapping[str, int]) -> dict[str, GroundTruth]:
    """Returns the truth by the names of the pictures. A picture without annotations is empty.

    Args:
        text: the annotations file.
        class_of: index of each class of the models by its name; a name that is a number is its own index.

    Raises:
        BadSamples: It is not in COCO format, or names a class that the models do not know.
    """
    try:
        document = CocoDataset.read(text).document
        names = {one["id"]: str(one.get("name", "")) for one in document["categories"]}
        truths = {one["id"]: GroundTruth(boxes=()) for one in document["images"]}
        for annotation in document["annotations"]:
            image_id = annotation["image_id"]
            if not annotation.get("iscrowd"):
                label = index_of(names[annotation["category_id"]], class_of, ANNOTATIONS)
                truths[image_id] = _with(truths[image_id], annotation, label)
        return {str(one["file_name"]): truths[one["id"]] for one in document["images"]}
    except (NoDataset, KeyError, TypeError, ValueError) as error:
        raise BadSamples(f"{ANNOTATIONS} is not in COCO's form.") from error


def _with(before: GroundTruth, annotation: Mapping[str, Any], label: int) -> GroundTruth:
    if annotation.get(WHOLE):
        return GroundTruth(label)
    x, y, width, height = map(float, annotation["bbox"])
    return GroundTruth(before.label, (*(before.boxes or ()), Box(x, y, x + width, y + height, 1.0, label)))


def index_of(name: str, class_of: Mapping[str, int], file: str) -> int:
    """Returns the models' index of a class that this file names. Raises BadSamples."""
    if name.isdecimal() and len(name) <= MOST_DIGITS:
        return int(name)
    if name not in class_of:
        known = ", ".join(list(class_of)[:8]) or "none: this model names no classes"
        raise BadSamples(f"{file}: the models know no class {name[:40]!r}.", hint=f"They know {known}.")
    return class_of[name]
