"""Measures reference pictures and arrays, so that all later checks are pure.

Runs in a sandbox child. It decodes for previews; `toolchains.samples` decodes for the model.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from app.conversion.intake.archive import Unpacked
from app.conversion.intake.calibration_report import ArrayStats, PictureStats, SampleStats, UnreadableSample
from app.conversion.options import Preprocess
from app.conversion.toolchains.samples import KINDS, InputSpec, Sample, SampleSet
from app.conversion.toolchains.samples.pictures import DECODER_ERRORS, FORMATS, MAX_PIXELS
from app.kit.errors import ModelmillError
from app.kit.files import sha256_of
from app.kit.text.plain_text import reason_of

LOOK_SIDE = 96
"""Pictures are measured at about this size, in pixels; a JPEG is decoded no larger than necessary."""
HASH_WIDTH, HASH_HEIGHT = 9, 8
GRAY_SPREAD = 2.0
"""A picture has no color if its channels differ by less than this on average, of 255."""

Progress = Callable[[float], None]
Item = TypeVar("Item")


def measure_pictures(
    paths: Sequence[Path], progress: Progress = lambda _: None
) -> tuple[list[PictureStats], list[UnreadableSample]]:
    """Measure pictures.

    Args:
        progress: called with the fraction that is done.

    Returns:
        The measurements, and the files that cannot be read.
    """
    measured, unreadable = [], []
    for index, path in enumerate(paths):
        progress(index / len(paths))
        try:
            measured.append(measure_picture(path))
        except DECODER_ERRORS as error:
            unreadable.append(UnreadableSample(path.name, reason_of(error)))
    return measured, unreadable


def measure_samples(
    folder: Path, unpacked: Unpacked, inputs: Sequence[InputSpec] | None, most: int, progress: Progress = lambda _: None
) -> tuple[SampleStats, ModelmillError | None]:
    """Measure the content of an unpacked upload, and report why its arrays do not fit the inputs.

    Args:
        inputs: with fixed shapes; without them, files of arrays are only counted.
        most: how many pictures and how many arrays are measured; the pictures are spread evenly over all.
    """
    files = sorted(folder / name for name in unpacked.files)
    kinds = Counter(KINDS[path.suffix.lower()] for path in files)
    chosen = spread([path for path in files if KINDS[path.suffix.lower()] == "image"], most)
    pictures, unreadable = measure_pictures(chosen, progress)
    counted, arrays, problem = _measure_arrays(folder, kinds, inputs, most)
    return SampleStats(kinds["image"] + counted, pictures, arrays, unreadable, dict(kinds), unpacked.ignored), problem


def _measure_arrays(
    folder: Path, kinds: Counter[str], inputs: Sequence[InputSpec] | None, limit: int
) -> tuple[int, list[ArrayStats], ModelmillError | None]:
    """Returns the number of samples in the arrays, the measurements of the first ones, and why they do not fit the
    model."""
    files = kinds["npy"] + kinds["npz"]
    if not files or inputs is None:
        return files, [], None
    try:
        samples = SampleSet(folder, inputs, Preprocess(), skip_damaged=True)
        measured = [
            measure_array(sample.name, name, array)
            for sample, _ in zip(_select_arrays(samples), range(limit), strict=False)
            for name, array in sample.arrays.items()
            if array.size and array.dtype.kind in "fiu"
        ]
        return len(samples) - kinds["image"], measured, None
    except ModelmillError as error:
        return files, [], error


def _select_arrays(samples: SampleSet) -> Iterator[Sample]:
    return (s for s in samples if not any(s.name.lower().endswith(end) for end in KINDS if KINDS[end] == "image"))


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """Returns at most `count` of them, spread evenly and in order."""
    if len(items) <= count:
        return list(items)
    return [items[int(index)] for index in np.linspace(0, len(items) - 1, count)]


def measure_picture(path: Path) -> PictureStats:
    """Measures one picture.

    Raises:
        Exception: One of DECODER_ERRORS.
    """
    with warnings.catch_warnings(action="ignore"), Image.open(path, formats=FORMATS) as picture:
        size, form, has_color = picture.size, str(picture.format), picture.mode not in ("1", "L", "I", "F", "LA")
        small = _shrink(picture)
    colors = np.asarray(small.convert("RGB"), dtype=np.float64)
    gray = np.asarray(small.convert("L"), dtype=np.float64)
    is_gray = not has_color or float(np.ptp(colors, axis=2).mean()) < GRAY_SPREAD
    return PictureStats(
        name=path.name,
        size_bytes=path.stat().st_size,
        sha256=sha256_of(path),
        dhash=dhash(small),
        width=size[0],
        height=size[1],
        mean=float(gray.mean()),
        deviation=float(gray.std()),
        is_gray=is_gray,
        format=form,
    )


def dhash(picture: Image.Image) -> int:
    """Returns the difference hash, which is equal for scaled, recompressed or brightened copies, and very different for
    other pictures."""
    tiny = picture.convert("L").resize((HASH_WIDTH, HASH_HEIGHT), Image.Resampling.BILINEAR)
    levels = np.asarray(tiny, dtype=np.int16)
    bits = (levels[:, 1:] > levels[:, :-1]).flatten()
    return int("".join("1" if bit else "0" for bit in bits), 2)


def measure_array(name: str, input_name: str, values: npt.NDArray[Any]) -> ArrayStats:
    """Measure one array of one sample.

    Args:
        values: at least one, all finite.
    """
    real = values.astype(np.float64)
    return ArrayStats(
        name=name,
        input=input_name,
        sha256=hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest(),
        low=float(real.min()),
        high=float(real.max()),
        mean=float(real.mean()),
        deviation=float(real.std()),
    )


def thumbnail(path: Path, target: Path, side: int) -> None:
    """Write a small JPEG of at most side × side pixels.

    Raises:
        Exception: One of DECODER_ERRORS.
    """
    with warnings.catch_warnings(action="ignore"), Image.open(path, formats=FORMATS) as picture:
        small = _shrink(picture, side)
    if max(small.size) < side // 2:  # tiny pictures are enlarged without smoothing
        factor = max(1, side // max(small.size))
        small = small.resize((small.width * factor, small.height * factor), Image.Resampling.NEAREST)
    small.convert("RGB").save(target, "JPEG", quality=82)


def _shrink(picture: Image.Image, side: int = LOOK_SIDE) -> Image.Image:
    """Returns the picture upright, with 8 bits per channel and at most side × side pixels; transparent pixels do not
    count as black."""
    if picture.width * picture.height > MAX_PIXELS:
        raise ValueError(f"{picture.width} x {picture.height} pixels are more than {MAX_PIXELS:,}")
    picture.draft(None, (side, side))
    picture.load()
    upright = ImageOps.exif_transpose(_to_eight_bits(picture))
    upright = upright.convert("L" if upright.mode in ("1", "L", "LA") else "RGB")
    upright.thumbnail((side, side), Image.Resampling.BILINEAR)
    return upright


def _to_eight_bits(picture: Image.Image) -> Image.Image:
    if picture.mode != "I" and not picture.mode.startswith("I;"):
        return picture
    return Image.fromarray(np.clip(np.asarray(picture).astype(np.int64) >> 8, 0, 255).astype(np.uint8))
