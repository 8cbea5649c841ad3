"""Hard samples as a data set in COCO format: pictures, and boxes that models propose for a review. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from app.inference.keypoints import VISIBLE
from app.inference.polygons import area_of, flat
from app.inference.prediction import Box
from app.joint_inference.model.tally import Sample
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_object

ALIKE_BITS = 5
"""Two pictures are alike if their difference hashes (64 bits) differ in at most this many bits."""
WHOLE = "is_whole_picture"
"""Key of annotations that are a class of the whole picture, as a classifier answers, instead of a box."""
KINDS = ("images", "annotations", "categories")


class NoDataset(Exception):
    """The text is not in COCO format."""


@dataclass
class CocoDataset:
    """The lists of an annotations file, and its other content."""

    document: JsonObject

    @staticmethod
    def read(text: bytes) -> CocoDataset:
        """Reads a file; an empty text is an empty data set.

        Raises:
            NoDataset: It is not in COCO format.
        """
        try:
            document = read_object(text or b"{}")
        except UnreadableJson as error:
            raise NoDataset from error
        for kind in KINDS:
            entries = document.setdefault(kind, [])
            if not isinstance(entries, list) or not all(_is_entry(one) for one in entries):
                raise NoDataset
        return CocoDataset(document)

    def write(self) -> bytes:
        return json.dumps(self.document, indent=1).encode()

    @property
    def file_names(self) -> list[str]:
        """Names of its pictures, relative to its folder."""
        return [name for one in self.document["images"] if isinstance(name := one.get("file_name"), str)]

    @property
    def count(self) -> int:
        """Number of its pictures."""
        return len(self.document["images"])

    def has_alike(self, dhash: str) -> bool:
        """Returns whether there is a picture that hardly differs; pictures without a known hash are ignored."""
        number = _hash(dhash)
        return number is not None and any(
            (other := _hash(image.get("dhash"))) is not None and (number ^ other).bit_count() <= ALIKE_BITS
            for image in self.document["images"]
        )

    def next_number(self) -> int:
        return self._next("images")

    def add(self, file_name: str, sample: Sample, size: tuple[int, int], dhash: str) -> None:
        """Add a picture with its answers: the cloud's boxes if it has answered, otherwise the edge's.

        Args:
            file_name: of the picture.
            sample: with both answers.
            size: width and height of the picture, which may be smaller than that of the sample's boxes.
            dhash: its difference hash; empty if unknown.
        """
        image_id = self._next("images")
        facts = {"date_captured": sample.at, "dhash": dhash, "answered_by": sample.source.value, "why": sample.why}
        width, height = size
        self.document["images"].append(
            {"id": image_id, "file_name": file_name, "width": width, "height": height, **facts}
        )
        answer = sample.cloud or sample.edge
        boxes, is_class = answer.boxes, answer.label is not None
        if answer.label is not None:
            whole = (0.0, 0.0, float(sample.width), float(sample.height))
            boxes = (Box(*whole, answer.probabilities[answer.label], answer.label),)
        for box in boxes:
            annotation = self._annotate(image_id, box, width / sample.width, height / sample.height, sample.labels)
            if is_class:
                annotation[WHOLE] = True

    def _annotate(self, image_id: int, box: Box, across: float, down: float, labels: tuple[str, ...]) -> JsonObject:
        name = labels[box.label] if box.label < len(labels) else str(box.label)
        x, y = box.x1 * across, box.y1 * down
        width, height = (box.x2 - box.x1) * across, (box.y2 - box.y1) * down
        annotation: JsonObject = {
            "id": self._next("annotations"),
            "image_id": image_id,
            "category_id": self._add_category(name),
            "bbox": [round(value, 2) for value in (x, y, width, height)],
            "area": round(width * height, 2),
            "iscrowd": 0,
            "score": round(box.score, 5),
        }
        if box.keypoints:
            annotation |= _write_keypoints(box, across, down)
        if box.mask:
            parts = [tuple((x * across, y * down) for x, y in part) for part in box.mask]
            annotation |= {"segmentation": flat(parts), "area": round(sum(map(area_of, parts)), 2)}
        self.document["annotations"].append(annotation)
        return annotation

    def _add_category(self, name: str) -> int:
        for category in self.document["categories"]:
            if category.get("name") == name:
                return int(category["id"])
        category_id = self._next("categories")
        self.document["categories"].append({"id": category_id, "name": name})
        return category_id

    def _next(self, kind: str) -> int:
        return max((int(one["id"]) for one in self.document[kind]), default=0) + 1


def _write_keypoints(box: Box, across: float, down: float) -> JsonObject:
    """Returns x, y and v of each key point, v as COCO has it: 2 for a visible one, and 0, 0, 0 for any other."""
    points = [
        [round(x * across, 2), round(y * down, 2), 2] if score >= VISIBLE else [0, 0, 0]
        for x, y, score in box.keypoints
    ]
    return {
        "keypoints": [value for point in points for value in point],
        "num_keypoints": sum(point[2] > 0 for point in points),
    }


def _is_entry(one: object) -> bool:
    return isinstance(one, Mapping) and isinstance(one.get("id"), int)


def _hash(text: object) -> int | None:
    try:
        return int(text, 16) if isinstance(text, str) and 0 < len(text) <= 16 else None
    except ValueError:
        return None
