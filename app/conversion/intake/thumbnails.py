"""The sandbox entry points that make thumbnails: of named reference samples, and of one file of a data home.

Hostile files can harm only a child.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from app.conversion.intake.archive import unpack
from app.conversion.intake.entry_points import PictureRequest, ThumbnailsRequest, ThumbnailsResult
from app.conversion.intake.sample_measurement import thumbnail
from app.conversion.toolchains.base import Progress
from app.conversion.toolchains.samples import KINDS
from app.conversion.toolchains.samples.pictures import DECODER_ERRORS, FORMATS, MAX_PIXELS
from app.kit.errors import BadInput
from app.kit.text.json_values import JsonObject

SIDE = 128
FILE_SIDE = 512
SMALL = 64
"""Smaller pictures are enlarged by a whole factor, so that their pixels are visible."""
_IN_STACK = re.compile(r"(?P<file>.*)\[(?P<index>\d+)\]")
ARRAY_ERRORS = (OSError, ValueError, EOFError, LookupError, MemoryError)


def make_thumbnails(request: ThumbnailsRequest, progress: Progress) -> ThumbnailsResult:
    """Write <index in names>.webp for each sample that can be shown."""
    folder, into = Path(request["unpack_to"]), Path(request["into"])
    into.mkdir(parents=True, exist_ok=True)
    unpack(request)
    places = []
    for place, name in enumerate(request["names"]):
        progress(place / len(request["names"]), name)
        picture = _load_picture(folder, name)
        if picture is not None:
            _fit_size(picture).save(into / f"{place}.webp", "WEBP", quality=85)
            places.append(place)
    return {"made": places}


def make_picture(request: PictureRequest, _: Progress) -> JsonObject:
    """Write a small JPEG of a picture.

    Raises:
        BadInput: The file is not a picture.
    """
    try:
        thumbnail(Path(request["picture"]), Path(request["into"]), FILE_SIDE)
    except DECODER_ERRORS as error:
        raise BadInput("This is no picture that can be read here.", hint="Download it to look at it.") from error
    return {}


def _load_picture(folder: Path, name: str) -> Image.Image | None:
    """Returns a picture of a sample; None if it does not exist, is damaged, or is not a picture."""
    stacked = _IN_STACK.fullmatch(name)
    path, index = (folder / stacked["file"], int(stacked["index"])) if stacked else (folder / name, 0)
    if not path.is_file() and (folder / name).is_file():
        path, index = folder / name, 0
    if path.parent != folder or not path.is_file():
        return None
    if KINDS.get(path.suffix.lower()) == "image":
        return _decode(path)
    try:
        return next((drawn for array in _iterate_arrays(path) if (drawn := _draw(array, index)) is not None), None)
    except ARRAY_ERRORS:
        return None


def _decode(path: Path) -> Image.Image | None:
    try:
        with Image.open(path, formats=FORMATS) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                return None
            picture.draft("RGB", (2 * SIDE, 2 * SIDE))
            return ImageOps.exif_transpose(picture).convert("RGB")
    except DECODER_ERRORS:
        return None


def _iterate_arrays(path: Path) -> Iterator[npt.NDArray[Any]]:
    if path.suffix.lower() == ".npy":
        yield np.load(path, mmap_mode="r", allow_pickle=False)
        return
    with np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            yield archive[name]


def _draw(array: npt.NDArray[Any], index: int) -> Image.Image | None:
    """Makes a picture of numbers with rank 2, or rank 3 with 1 or 3 channels first or last; the values are stretched to
    0..255.

    Leading axes are removed by selecting the sample. Returns None if the numbers are not a picture.
    """
    while array.ndim > 3:
        array = array[index] if index < len(array) else array[0]
        index = 0
    if array.ndim == 3 and array.shape[0] not in (1, 3) and array.shape[2] not in (1, 3) and index < len(array):
        array = array[index]
    if array.ndim == 3:
        array = np.moveaxis(array, 0, 2) if array.shape[0] in (1, 3) else array
        array = array[:, :, 0] if array.shape[2] == 1 else array
    if array.ndim not in (2, 3) or min(array.shape[:2]) < 2 or (array.ndim == 3 and array.shape[2] != 3):
        return None
    values = np.asarray(array, dtype=np.float64)
    if not np.isfinite(values).all() or values.size > MAX_PIXELS:
        return None
    low, high = float(values.min()), float(values.max())
    return Image.fromarray(((values - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)).convert("RGB")


def _fit_size(picture: Image.Image) -> Image.Image:
    longest = max(picture.size)
    if longest < SMALL:
        factor = SIDE // longest
        return picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return picture
