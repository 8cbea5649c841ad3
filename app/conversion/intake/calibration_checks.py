"""Checks reference samples by their measurements, before a job is queued.

Pure. A finding has its texts as gettext keys with separate numbers, so that a page shows it in any language. Only what
cannot work blocks; everything else is advice with its source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.conversion.intake import range_checks
from app.conversion.intake.calibration_report import (
    BLOCKS,
    FIELD,
    INFORMS,
    MANUAL,
    WARNS,
    ArrayStats,
    Finding,
    PictureStats,
    SampleStats,
)
from app.conversion.intake.range_checks import ExpectedRange
from app.conversion.options import Preprocess
from app.conversion.toolchains.base import FEW_SAMPLES, GOOD_SAMPLES
from app.kit.text.json_values import JsonObject

PLENTY = 1000
"""Field practice: more samples than this bring nothing."""
NEAR_BITS = 2
"""dHashes of 64 bits that differ in no more bits than this belong to the same scene."""
FLAT_DEVIATION = 3.0
DARK_MEAN, BRIGHT_MEAN = 20.0, 235.0
STRETCH = 1.5
"""Aspect ratios that differ by more than this factor distort visibly when a picture is stretched."""
COMPARED_AT_MOST = 2000


@dataclass(frozen=True)
class CalibrationTarget:
    """The input for which the samples are meant."""

    channels: int | None = None
    size: tuple[int, int] | None = None
    """Width and height of the picture; None for other inputs, and while unknown."""
    expectation: ExpectedRange = field(default_factory=ExpectedRange)
    trained_with: Preprocess | None = None
    """The preprocessing of the model's training, if it is certain; what it makes of pixels is not doubted."""


def target_of(
    shapes: Sequence[Sequence[int | str | None]], expectation: ExpectedRange, trained_with: Preprocess | None = None
) -> CalibrationTarget:
    """Determine the input for which the samples are meant. Only a single input with four axes can take pictures.

    Args:
        shapes: the shapes of all inputs.
        expectation: the values that the model expects.
        trained_with: the preprocessing of the model's training, if it is certain.
    """
    shape = shapes[0] if len(shapes) == 1 else ()
    if len(shape) != 4:
        return CalibrationTarget(expectation=expectation)
    order = "NHWC" if shape[3] in (1, 3) and shape[1] not in (1, 3) else "NCHW"
    height, width, channels = (shape[order.index(axis)] for axis in "HWC")
    size = (width, height) if isinstance(width, int) and isinstance(height, int) else None
    return CalibrationTarget(channels if isinstance(channels, int) else None, size, expectation, trained_with)


def diagnose(
    measured: SampleStats, target: CalibrationTarget, preprocess: Preprocess, *, allow_damaged: bool = False
) -> list[Finding]:
    """Judge samples by their measurements.

    Args:
        target: the model's input, and which values it expects.
        preprocess: how the job would prepare the pictures.
        allow_damaged: the job skips files that cannot be read, so they do not block it.

    Returns:
        All findings, the most serious first.
    """
    findings = [
        *_count(measured),
        *_check_files(measured, allow_damaged),
        *_find_duplicates(measured),
        *_check_content(measured.pictures),
        *_check_sizes(measured.pictures, target, preprocess),
        *_check_colors(measured.pictures, target, preprocess),
        *_check_arrays(measured.arrays, target),
    ]
    order = {BLOCKS: 0, WARNS: 1, INFORMS: 2}
    return sorted(findings, key=lambda finding: order[finding.severity])


def verdict(findings: Sequence[Finding]) -> Literal["blocks", "warns", "good"]:
    severities = {finding.severity for finding in findings}
    return "blocks" if BLOCKS in severities else "warns" if WARNS in severities else "good"


def _count(measured: SampleStats) -> Iterator[Finding]:
    count = measured.count
    if 0 < count < GOOD_SAMPLES:
        yield Finding(
            "FEW_SAMPLES",
            WARNS if count < FEW_SAMPLES else INFORMS,
            "Few samples (%(count)s): the ranges of the activations will be guesses.",
            "Send about %(good)s typical pictures, as the camera will see them.",
            MANUAL,
            detail={"count": count, "good": GOOD_SAMPLES},
        )
    if count > PLENTY:
        yield Finding(
            "MANY_SAMPLES",
            INFORMS,
            "%(count)s samples make calibration slow without making it better.",
            "A few hundred well chosen pictures are enough.",
            FIELD,
            detail={"count": count},
        )


def _check_files(measured: SampleStats, allow_damaged: bool) -> Iterator[Finding]:
    names = tuple(entry.name for entry in measured.unreadable)
    is_all = bool(names) and not measured.pictures and not measured.arrays
    if names:
        yield Finding(
            "UNREADABLE",
            INFORMS if allow_damaged and not is_all else BLOCKS,
            "Files that cannot be read: %(count)s.",
            "Replace them, or choose to leave damaged pictures out.",
            "",
            names,
            detail={"count": len(names)},
        )
    kinds = [kind for kind, count in measured.kinds.items() if count]
    if "image" in kinds and len(kinds) > 1:
        yield Finding(
            "MIXED_KINDS",
            WARNS,
            "Pictures and arrays are mixed: only the pictures are preprocessed.",
            "Send one kind, or make sure that the arrays hold what preprocessing would give.",
            FIELD,
        )
    if measured.ignored:
        yield Finding(
            "FILES_IGNORED",
            INFORMS,
            "Files that are no samples and are ignored: %(count)s.",
            "",
            "",
            tuple(measured.ignored),
            detail={"count": len(measured.ignored)},
        )


def _find_duplicates(measured: SampleStats) -> Iterator[Finding]:
    items: list[PictureStats | ArrayStats] = [*measured.pictures, *measured.arrays]
    copies = _find_copies(items)
    kinds = len({item.sha256 for item in items})
    if len(items) > 1 and kinds == 1:
        yield Finding(
            "ALL_THE_SAME",
            WARNS,
            "All %(count)s samples are one and the same.",
            "Calibration needs variety: send different pictures.",
            FIELD,
            detail={"count": len(items)},
        )
        return
    if copies:
        yield Finding(
            "DUPLICATES",
            WARNS if 10 * len(copies) > len(items) else INFORMS,
            "Samples that are exact copies of others: %(count)s.",
            "Leave them out: they add time and no information.",
            FIELD,
            copies,
            detail={"count": len(copies)},
        )
    near = _find_near_copies(measured.pictures, set(copies))
    if near:
        yield Finding(
            "NEAR_DUPLICATES",
            WARNS if 3 * len(near) > len(measured.pictures) else INFORMS,
            "Pictures that look almost the same as others: %(count)s.",
            "Frames of one scene count as one picture; choose them from different scenes.",
            FIELD,
            near,
            detail={"count": len(near)},
        )


def _find_copies(items: Sequence[PictureStats | ArrayStats]) -> tuple[str, ...]:
    seen: dict[str, str] = {}
    return tuple(item.name for item in items if seen.setdefault(item.sha256, item.name) != item.name)


def _find_near_copies(pictures: Sequence[PictureStats], copies: set[str]) -> tuple[str, ...]:
    """Finds nearly equal pictures. Flat pictures have no gradients to compare; another finding reports them."""
    hashes: list[int] = []
    near = []
    for picture in pictures[:COMPARED_AT_MOST]:
        if picture.name in copies or picture.deviation < FLAT_DEVIATION:
            continue
        if any((picture.dhash ^ other).bit_count() <= NEAR_BITS for other in hashes):
            near.append(picture.name)
        else:
            hashes.append(picture.dhash)
    return tuple(near)


def _check_content(pictures: Sequence[PictureStats]) -> Iterator[Finding]:
    flat = tuple(p.name for p in pictures if p.deviation < FLAT_DEVIATION)
    dark = tuple(p.name for p in pictures if p.mean < DARK_MEAN and p.name not in flat)
    bright = tuple(p.name for p in pictures if p.mean > BRIGHT_MEAN and p.name not in flat)
    tests: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
        ("BLANK", flat, "Blank or nearly blank pictures: %(count)s.", "Leave them out: they set no useful range."),
        ("DARK", dark, "Very dark pictures: %(count)s.", "Keep them only if the camera will see such scenes."),
        ("BRIGHT", bright, "Very bright pictures: %(count)s.", "Keep them only if the camera will see such scenes."),
    )
    for code, names, message, advice in tests:
        if names:
            severity = WARNS if code == "BLANK" or 2 * len(names) > len(pictures) else INFORMS
            yield Finding(code, severity, message, advice, FIELD, names, detail={"count": len(names)})


def _check_sizes(
    pictures: Sequence[PictureStats], target: CalibrationTarget, preprocess: Preprocess
) -> Iterator[Finding]:
    if target.size is None:
        return
    width, height = target.size
    small = tuple(p.name for p in pictures if p.width * 2 <= width and p.height * 2 <= height)
    if small:
        yield Finding(
            "SMALL",
            WARNS if 2 * len(small) > len(pictures) else INFORMS,
            "Pictures less than half as large as the input (%(width)s × %(height)s), which get blurred: %(count)s.",
            "Send them in the size the camera gives.",
            FIELD,
            small,
            detail={"count": len(small), "width": width, "height": height},
        )
    stretched = {p.name: _measure_stretch(p, width / height) for p in pictures}
    odd = tuple(name for name, factor in stretched.items() if factor > STRETCH)
    if odd and preprocess.resize == "stretch":
        yield Finding(
            "STRETCHED",
            WARNS if 2 * len(odd) > len(pictures) else INFORMS,
            "Pictures of another shape than the input, distorted up to %(factor)s times by stretching: %(count)s.",
            "Choose letterbox if the model was trained that way, or crop the pictures.",
            FIELD,
            odd,
            detail={"count": len(odd), "factor": f"{max(stretched.values()):.1f}"},
        )


def _measure_stretch(picture: PictureStats, aspect: float) -> float:
    ratio = picture.width / picture.height / aspect
    return max(ratio, 1 / ratio)


def _check_colors(
    pictures: Sequence[PictureStats], target: CalibrationTarget, preprocess: Preprocess
) -> Iterator[Finding]:
    if not pictures:
        return
    gray = tuple(p.name for p in pictures if p.is_gray)
    if gray and target.channels == 3:
        yield Finding(
            "GRAY_FOR_COLOR",
            WARNS if 2 * len(gray) > len(pictures) else INFORMS,
            "The model takes three channels; pictures without color: %(count)s.",
            "Send color pictures if the camera is in color.",
            FIELD,
            gray,
            detail={"count": len(gray)},
        )
    if not _is_certain(preprocess, target.trained_with):
        yield from range_checks.judge_pictures(preprocess, pictures, target.expectation)
    yield from range_checks.judge_channel_order(preprocess, target.channels, target.expectation)


def _is_certain(preprocess: Preprocess, trained_with: Preprocess | None) -> bool:
    """Returns whether pixels become the numbers that the model was certainly trained with."""
    numbers = (preprocess.scale, preprocess.mean, preprocess.std)
    return trained_with is not None and numbers == (trained_with.scale, trained_with.mean, trained_with.std)


def _check_arrays(arrays: Sequence[ArrayStats], target: CalibrationTarget) -> Iterator[Finding]:
    constant = tuple(a.name for a in arrays if a.low == a.high)
    if constant:
        detail: JsonObject = {"count": len(constant)}
        yield Finding(
            "CONSTANT",
            WARNS,
            "Arrays that hold one value only: %(count)s.",
            "Check how they were written.",
            FIELD,
            constant,
            detail=detail,
        )
    yield from range_checks.judge_arrays(arrays, target.expectation, are_pictures=target.channels is not None)
