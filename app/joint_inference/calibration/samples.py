"""A user's set of samples: a zip of pictures, with labels in labels.csv, in annotations.json (COCO) or in a file for
each picture (YOLO, VOC), or an .npz.

Runs in the sandbox. Names in a zip are never used as paths: nothing is unpacked.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from app.conversion.errors import SamplesTooLarge
from app.conversion.intake import entries
from app.conversion.intake.entries import READ_ERRORS
from app.inference.errors import DamagedPicture
from app.inference.picture_codec import decode
from app.inference.prediction import Box, Picture
from app.joint_inference.calibration.labels import ANNOTATIONS, ModelClasses, PictureLabels, read_annotations
from app.joint_inference.calibration.model import MAX_SAMPLES
from app.joint_inference.calibration.predictions import UNKNOWN, GroundTruth
from app.joint_inference.errors import BadSamples
from app.joint_inference.model.sample_files import is_picture
from app.kit.text.untrusted_csv import UnreadableCsv, read_rows

MAX_BYTES = 2 << 30
"""Largest size of a set once unpacked, in bytes."""
MAX_PICTURE_BYTES = 64 << 20
MAX_LABELS_BYTES = 8 << 20
LABELS = "labels.csv"
WANTED = "Send a zip of JPEG or PNG pictures, or an .npz with the array x and, where known, the classes y."


@dataclass(frozen=True)
class CalibrationSample:
    """A picture of the set, and the truth about it."""

    name: str
    picture: Picture | None
    """None if it could not be read."""
    truth: GroundTruth = UNKNOWN


@dataclass
class SampleLabels:
    """Labels by the name of the file, with or without its folders."""

    truths: dict[str, GroundTruth] = field(default_factory=dict)

    def of(self, name: str) -> GroundTruth:
        return self.truths.get(name) or self.truths.get(PurePosixPath(name).name) or GroundTruth()


def read_samples(path: Path, labels: Sequence[str]) -> Iterator[CalibrationSample]:
    """Yields the samples of a set.

    Args:
        labels: names of the models' classes.

    Raises:
        BadSamples, SamplesTooLarge, BadArchive, ZipBomb: The set is not valid; raised before the first sample, or at a
            later one.
    """
    directory = _read_directory(path)
    if entries.is_npz(directory):
        entries.refuse_bomb(directory, path.stat().st_size, "the .npz file", MAX_BYTES)
        yield from _iterate_arrays(path)
        return
    with zipfile.ZipFile(path) as archive:
        yield from _iterate_pictures(archive, path.stat().st_size, labels)


def _read_directory(path: Path) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.infolist()
    except READ_ERRORS as error:
        raise BadSamples("The samples are no zip and no .npz, or the file is damaged.", hint=WANTED) from error


def count_of(path: Path) -> int:
    """Returns the expected number of pictures, to show the progress; 0 if unknown."""
    directory = _read_directory(path)
    if entries.is_npz(directory):
        return 0
    return sum(is_picture(PurePosixPath(info.filename)) for info in directory)


def _iterate_pictures(archive: zipfile.ZipFile, size: int, labels: Sequence[str]) -> Iterator[CalibrationSample]:
    chosen = entries.choose(archive.infolist(), size, max_files=MAX_SAMPLES, max_bytes=MAX_BYTES)
    pictures = [entry for entry in chosen.samples if is_picture(PurePosixPath(entry.name))]
    if not pictures:
        raise BadSamples("There is no JPEG or PNG in the zip.", hint=WANTED)
    classes = ModelClasses(labels)
    truths = _read_labels(archive, classes)
    own = PictureLabels(archive, [entry.name for entry in pictures], classes) if truths is None else None
    for entry in pictures:
        picture = _open(archive, entry.info)
        truth = truths.of(entry.name) if truths is not None else UNKNOWN
        if own is not None and picture is not None:
            truth = own.of(entry.name, picture.shape[1], picture.shape[0])
        yield CalibrationSample(entry.name, picture, truth)


def _open(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Picture | None:
    """Returns None for a picture that cannot be read: one bad picture of hundreds means nothing for the others."""
    try:
        if info.file_size > MAX_PICTURE_BYTES:
            return None
        with archive.open(info) as source:
            return decode(source.read(MAX_PICTURE_BYTES + 1))
    except (*READ_ERRORS, DamagedPicture):
        return None


def _read_labels(archive: zipfile.ZipFile, classes: ModelClasses) -> SampleLabels | None:
    """Reads labels.csv, otherwise annotations.json; None: there is neither.

    Raises:
        BadSamples: The file is damaged.
    """
    by_name = {PurePosixPath(info.filename).name.lower(): info for info in archive.infolist()}
    file = next((file for file in (LABELS, ANNOTATIONS) if file in by_name), None)
    if file is None:
        return None
    if by_name[file].file_size > MAX_LABELS_BYTES:
        raise BadSamples(f"{file} has more than {MAX_LABELS_BYTES >> 20} MiB.")
    try:
        content = archive.read(by_name[file])
    except READ_ERRORS as error:
        raise BadSamples(f"{file} is damaged in the zip.", hint="Pack and send it again.") from error
    if file == ANNOTATIONS:
        return SampleLabels(read_annotations(content, classes))
    return read_labels(content.decode("utf-8-sig", "replace"), classes)


def read_labels(text: str, classes: ModelClasses) -> SampleLabels:
    """Reads lines of name,class, or name,class,x1,y1,x2,y2 for each box. A class is a number, or its name.

    A first line that starts with "name" is a heading. A line with only a name means an empty picture.
    """
    try:
        rows = [(line, [cell.strip() for cell in row]) for line, row in read_rows(text)]
    except UnreadableCsv as error:
        raise BadSamples(f"{LABELS} cannot be read: {error}.") from None
    if rows and rows[0][1][0].lower() in ("name", "file", "filename"):
        rows = rows[1:]
    result = SampleLabels()
    for number, row in rows:
        before = result.truths.get(row[0], GroundTruth())
        result.truths[row[0]] = _with(before, row, f"{LABELS}, line {number}", classes)
    return result


def _with(before: GroundTruth, row: Sequence[str], place: str, classes: ModelClasses) -> GroundTruth:
    if len(row) == 1 or not any(row[1:]):
        return GroundTruth(before.label, before.boxes or ())
    if len(row) == 2:
        return GroundTruth(classes.index_of(row[1], place), before.boxes)
    if len(row) != 6:
        raise BadSamples(f"{place}: it has {len(row)} columns, where 2 or 6 are meant.")
    label = classes.index_of(row[1], place)
    try:
        x1, y1, x2, y2 = corners = [float(cell) for cell in row[2:]]
        if not all(map(isfinite, corners)):
            raise ValueError(corners)
    except ValueError:
        raise BadSamples(f"{place}: the corners of a box are numbers.") from None
    return GroundTruth(before.label, (*(before.boxes or ()), Box(x1, y1, x2, y2, 1.0, label)))


def _iterate_arrays(path: Path) -> Iterator[CalibrationSample]:
    try:
        with np.load(path, allow_pickle=False) as loaded:
            arrays: Mapping[str, Any] = {name: loaded[name] for name in loaded.files if name in ("x", "y")}
    except (*READ_ERRORS, ValueError, OSError) as error:
        raise BadSamples("The .npz file cannot be read.", hint=WANTED) from error
    if "x" not in arrays or arrays["x"].ndim not in (3, 4) or not len(arrays["x"]):
        raise BadSamples("The .npz file has no pictures in an array x of 3 or 4 dimensions.", hint=WANTED)
    x, y = arrays["x"], arrays.get("y")
    if len(x) > MAX_SAMPLES:
        raise SamplesTooLarge(f"x holds {len(x)} samples; at most {MAX_SAMPLES} are taken", hint="Send fewer.")
    if y is not None and (y.shape != (len(x),) or not np.issubdtype(y.dtype, np.integer)):
        raise BadSamples("y is not one whole number for each sample of x.", hint=WANTED)
    for index, values in enumerate(x):
        truth = GroundTruth() if y is None else GroundTruth(int(y[index]))
        yield CalibrationSample(f"x[{index}]", _to_picture(values), truth)


def _to_picture(values: npt.NDArray[Any]) -> Picture | None:
    """Converts an array with channels first, last or none, of floats up to 1 or up to 255."""
    if values.ndim == 3 and values.shape[0] in (1, 3) and values.shape[2] not in (1, 3):
        values = np.moveaxis(values, 0, 2)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if values.ndim == 3 and values.shape[2] != 3:
        return None
    if values.dtype != np.uint8:
        if not np.isfinite(values).all():
            return None
        top = 255.0 if float(values.max(initial=0)) <= 1.0 else 1.0
        values = np.rint(np.clip(values.astype(np.float64) * top, 0, 255))
    return np.ascontiguousarray(values, dtype=np.uint8)
