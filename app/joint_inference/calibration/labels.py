"""The true content of a set's pictures: from its annotations in COCO format, or from a file for each of them, YOLO's
text or VOC's XML. Runs in the sandbox."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import PurePosixPath
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from app.conversion.intake.entries import READ_ERRORS
from app.inference.prediction import Box
from app.joint_inference.calibration.predictions import UNKNOWN, GroundTruth
from app.joint_inference.errors import BadSamples
from app.joint_inference.model.coco import WHOLE, CocoDataset, NoDataset
from app.kit.text.plain_text import MOST_DIGITS
from app.kit.text.plain_yaml import UnreadableYaml, read_yaml

ANNOTATIONS = "annotations.json"
YOLO, VOC = ".txt", ".xml"
CLASSES, DATA = "classes.txt", "data.yaml"
"""Files with YOLO's names of the classes: one on each line, or as `names`."""
FOLDERS = frozenset({"images", "labels", "jpegimages", "annotations"})
"""Names of folders by which the path of a picture and that of its file differ."""
MAX_BYTES = 256 << 10
"""Largest size of such a file."""
_NUMBER = re.compile(r"((?:^|[{,])\s*)(\d+)(?=\s*:)", re.MULTILINE)
"""A key that is a number: our YAML has only texts as keys."""


class ModelClasses:
    """The classes of the models, as files with the true content of pictures name them.

    Args:
        names: of the classes, by index; may be empty. Of two with the same name, the first is meant.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._indexes: dict[str, int] = {}
        for index, name in enumerate(names):
            self._indexes.setdefault(name, index)

    def index_of(self, name: str, place: str) -> int:
        """Returns the index of a class; a name that is a number is its own index.

        Args:
            place: where the name stands, for the message.

        Raises:
            BadSamples: The models do not know the class.
        """
        if name.isdecimal() and len(name) <= MOST_DIGITS:
            return int(name)
        if name not in self._indexes:
            known = ", ".join(list(self._indexes)[:8]) or "none: this model names no classes, so give their numbers"
            raise BadSamples(f"{place}: the models know no class {name[:40]!r}.", hint=f"They know {known}.")
        return self._indexes[name]


class PictureLabels:
    """The files of a zip that describe one picture each, of one of the two kinds.

    Args:
        pictures: names of the pictures in the zip.
        classes: of the models.

    Raises:
        BadSamples: The file with the names of YOLO's classes cannot be read.
    """

    def __init__(self, archive: zipfile.ZipFile, pictures: Iterable[str], classes: ModelClasses) -> None:
        self._archive, self._classes = archive, classes
        described = {_make_key(name) for name in pictures}
        self._files = {
            (PurePosixPath(info.filename).suffix.lower(), key): info
            for info in archive.infolist()
            if (key := _make_key(info.filename)) in described and PurePosixPath(info.filename).name.lower() != CLASSES
        }
        self._is_yolo = any(suffix == YOLO for suffix, _ in self._files)
        self._names = self._read_yolo_names() if self._is_yolo else []

    def of(self, name: str, width: int, height: int) -> GroundTruth:
        """Returns what is true of a picture of this size, in pixels. In a set of YOLO, one without a file is empty.

        Raises:
            BadSamples: Its file cannot be read, or names a class that the models do not know.
        """
        key = _make_key(name)
        if (info := self._files.get((VOC, key))) is not None:
            return self._parse_voc(info)
        if (info := self._files.get((YOLO, key))) is not None:
            return self._parse_yolo(info, width, height)
        return GroundTruth(boxes=()) if self._is_yolo else UNKNOWN

    def _parse_yolo(self, info: zipfile.ZipInfo, width: int, height: int) -> GroundTruth:
        boxes = list[Box]()
        for number, line in enumerate(self._read_text(info).splitlines(), 1):
            words = line.split()
            if not words:
                continue
            try:
                x, y, across, down = (float(word) for word in words[1:])
                label = int(words[0])
                if not all(map(isfinite, (x, y, across, down))) or label < 0:
                    raise ValueError(line)
            except ValueError:
                problem = f"{info.filename}, line {number}: a class and four numbers are meant."
                raise BadSamples(problem) from None
            corners = (x - across / 2, y - down / 2, x + across / 2, y + down / 2)
            x1, y1, x2, y2 = (value * side for value, side in zip(corners, (width, height) * 2, strict=True))
            boxes.append(Box(x1, y1, x2, y2, 1.0, self._check_index(label, info.filename)))
        return GroundTruth(boxes=tuple(boxes))

    def _check_index(self, label: int, file: str) -> int:
        return self._classes.index_of(self._names[label], file) if label < len(self._names) else label

    def _read_yolo_names(self) -> list[str]:
        by_name = {PurePosixPath(info.filename).name.lower(): info for info in self._archive.infolist()}
        if CLASSES in by_name:
            return [line.strip() for line in self._read_text(by_name[CLASSES]).splitlines() if line.strip()]
        if DATA not in by_name:
            return []
        try:
            names = read_yaml(_NUMBER.sub(r'\1"\2"', self._read_text(by_name[DATA])))["names"]
            is_list = isinstance(names, list)
            return [str(names[number if is_list else str(number)]) for number in range(len(names))]
        except (UnreadableYaml, KeyError, TypeError) as error:
            raise BadSamples(f"{DATA} has no list `names` of the classes.") from error

    def _parse_voc(self, info: zipfile.ZipInfo) -> GroundTruth:
        try:
            objects = list(fromstring(self._read_text(info)).iter("object"))
            boxes = [
                self._parse_voc_box(one, info.filename) for one in objects if one.findtext("difficult", "0") != "1"
            ]
        except (ParseError, DefusedXmlException, ValueError, TypeError) as error:
            raise BadSamples(f"{info.filename} is not in VOC's form.") from error
        return GroundTruth(boxes=tuple(boxes))

    def _parse_voc_box(self, one: Element, file: str) -> Box:
        sides = [float(one.findtext(f"bndbox/{side}") or "") for side in ("xmin", "ymin", "xmax", "ymax")]
        if not all(map(isfinite, sides)):
            raise ValueError(sides)
        x1, y1, x2, y2 = sides
        return Box(x1, y1, x2, y2, 1.0, self._classes.index_of((one.findtext("name") or "").strip(), file))

    def _read_text(self, info: zipfile.ZipInfo) -> str:
        if info.file_size > MAX_BYTES:
            raise BadSamples(f"{info.filename} has more than {MAX_BYTES >> 10} KiB.")
        try:
            with self._archive.open(info) as source:
                return source.read(MAX_BYTES).decode("utf-8-sig", "replace")
        except READ_ERRORS as error:
            raise BadSamples(f"{info.filename} is damaged in the zip.", hint="Pack and send it again.") from error


def _make_key(name: str) -> tuple[str, ...]:
    """What a picture and its file have in common."""
    path = PurePosixPath(name)
    return (*(part for part in path.parent.parts if part.lower() not in FOLDERS), path.stem)


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
