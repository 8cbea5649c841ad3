"""The true content of a set's pictures, from its annotations in COCO format. Runs in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.inference.prediction import Box
from app.joint_inference.calibration.model_classes import ModelClasses
from app.joint_inference.calibration.predictions import GroundTruth
from app.joint_inference.errors import BadSamples
from app.joint_inference.model.coco import WHOLE, CocoDataset, NoDataset

ANNOTATIONS = "annotations.json"


def read_annotations(text: bytes, classes: ModelClasses) -> dict[str, GroundTruth]:
    """Returns the truth by the names of the pictures. A picture without annotations is empty.

    Args:
        text: the annotations file.
        classes: of the models.

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
                label = classes.index_of(names[annotation["category_id"]], ANNOTATIONS)
                truths[image_id] = _with(truths[image_id], annotation, label)
        return {str(one["file_name"]): truths[one["id"]] for one in document["images"]}
    except (NoDataset, KeyError, TypeError, ValueError) as error:
        raise BadSamples(f"{ANNOTATIONS} is not in COCO's form.") from error


def _with(before: GroundTruth, annotation: Mapping[str, Any], label: int) -> GroundTruth:
    if annotation.get(WHOLE):
        return GroundTruth(label)
    x, y, width, height = map(float, annotation["bbox"])
    return GroundTruth(before.label, (*(before.boxes or ()), Box(x, y, x + width, y + height, 1.0, label)))
