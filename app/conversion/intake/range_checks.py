"""Compares the values of the prepared samples with those that the model expects. Pure; the model was measured
before."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.conversion.intake.calibration_report import FIELD, INFORMS, MODEL, WARNS, ArrayStats, Finding, PictureStats
from app.conversion.options import Preprocess
from app.conversion.presets import PREPROCESS
from app.inference.preprocess_options import read_preprocess

APART = 6.0
"""Spreads that differ by more than this factor mean another scale, not another scene."""
OFF_CENTRE = 2.5
"""A mean that is off by this many expected deviations means another offset. Even a night scene is within two."""
BYTES_HIGH, TINY_SPAN = 16.0, 0.05
USUAL_HIGH = 16.0
FAR, NEAR = 1.2, 0.6
"""Distances (see _measure_distance) beyond which a preprocessing was hardly the one of the training, and up to which it
may have been."""
LABELS = {
    "unit": "0 … 1",
    "signed": "−1 … 1",
    "imagenet": "ImageNet",
    "shift127": "(x − 127) / 128",
    "bytes_bgr": "0 … 255 BGR",
}
"""Presets by the names that the page uses in every language."""
BGR_MEANS = (103.939, 116.779, 123.68)
RGB_MEANS = tuple(reversed(BGR_MEANS))
IMAGENET = (0.485, 0.456, 0.406)


@dataclass(frozen=True)
class ExpectedRange:
    """Expected mean and deviation of the input's values, from the first layers; None if these do not show them."""

    mean: float | None = None
    deviation: float | None = None
    order: str = ""
    """RGB or BGR if a constant of the model shows it; empty otherwise."""
    why: str = ""
    """The evidence: "batchnorm", "constants" or ""."""


def judge_pictures(
    preprocess: Preprocess, pictures: Sequence[PictureStats], expectation: ExpectedRange
) -> Iterator[Finding]:
    """Compares the values of prepared pictures with the expected ones."""
    low, high = _find_span(preprocess)
    mean, deviation = _measure_prepared(preprocess, pictures)
    findings = list(_check_against_model(mean, deviation, low, high, expectation))
    if findings:
        yield from findings
    elif expectation.deviation is not None:
        yield from _check_against_presets(preprocess, pictures, expectation)
    else:
        yield from _check_against_custom(low, high, expectation)


def judge_arrays(arrays: Sequence[ArrayStats], expectation: ExpectedRange, *, are_pictures: bool) -> Iterator[Finding]:
    """Compares the values of arrays with the expected ones.

    Args:
        are_pictures: the arrays have the shape of pictures.
    """
    if not arrays:
        return
    low, high = min(a.low for a in arrays), max(a.high for a in arrays)
    mean = sum(a.mean for a in arrays) / len(arrays)
    deviation = sum(a.deviation for a in arrays) / len(arrays)
    findings = list(_check_against_model(mean, deviation, low, high, expectation))
    if findings or expectation.deviation is not None:
        yield from findings
    elif are_pictures and high > USUAL_HIGH and low >= 0 and high <= 255:
        yield Finding(
            "ARRAYS_IN_BYTES",
            WARNS,
            "The arrays hold values of %(low)s…%(high)s, as raw pixels do.",
            "Arrays are not preprocessed: scale and normalize them as in training.",
            FIELD,
            detail={"low": _format_number(low), "high": _format_number(high)},
        )


def judge_channel_order(preprocess: Preprocess, channels: int | None, expectation: ExpectedRange) -> Iterator[Finding]:
    """Compares the order of the colors with the expected one.

    Args:
        channels: number of the input's channels; None if unknown.
    """
    if channels != 3:
        return
    color = "RGB" if preprocess.color == "auto" else preprocess.color
    if expectation.order and expectation.order != color:
        yield Finding(
            "CHANNEL_ORDER",
            WARNS,
            "The model subtracts means in the order %(order)s, but pictures are given as %(color)s.",
            "Choose %(order)s as channel order.",
            MODEL,
            detail={"order": expectation.order, "color": color},
        )
        return
    order = order_of(preprocess.mean)
    if order and order != color:
        yield Finding(
            "MEAN_ORDER",
            WARNS,
            "These means are known in the order %(order)s, but pictures are given as %(color)s.",
            "Choose %(order)s as channel order, or turn the means around.",
            FIELD,
            detail={"order": order, "color": color},
        )


def order_of(means: Sequence[float]) -> str:
    """Returns RGB or BGR if these are ImageNet's means in one of the two orders; empty otherwise."""
    for reference, name in ((RGB_MEANS, "RGB"), (BGR_MEANS, "BGR"), (IMAGENET, "RGB"), (IMAGENET[::-1], "BGR")):
        if len(means) == 3 and all(abs(m - k) <= 0.02 * k for m, k in zip(means, reference, strict=True)):
            return name
    return ""


def _check_against_model(
    mean: float, deviation: float, low: float, high: float, expectation: ExpectedRange
) -> Iterator[Finding]:
    if expectation.deviation is None or expectation.mean is None or deviation <= 0:
        return
    factor = deviation / expectation.deviation
    offset = abs(mean - expectation.mean) / expectation.deviation
    detail = {
        "low": _format_number(low),
        "high": _format_number(high),
        "mean": _format_number(expectation.mean),
        "deviation": _format_number(expectation.deviation),
    }
    if factor > APART or factor < 1 / APART:
        yield Finding(
            "WRONG_SCALE",
            WARNS,
            "Prepared samples span %(low)s…%(high)s; the model was trained on values around %(mean)s ± %(deviation)s.",
            "Choose the preprocessing the model was trained with.",
            MODEL,
            detail=detail,
        )
    elif offset > OFF_CENTRE:
        yield Finding(
            "WRONG_OFFSET",
            WARNS,
            "Prepared samples span %(low)s…%(high)s; the model was trained on values around %(mean)s ± %(deviation)s.",
            "Check the mean that is subtracted.",
            MODEL,
            detail=detail,
        )


def _check_against_presets(
    preprocess: Preprocess, pictures: Sequence[PictureStats], expectation: ExpectedRange
) -> Iterator[Finding]:
    """Reports a plausible scale if another preprocessing fits the model's first layers clearly better."""
    mean, deviation = _measure_prepared(preprocess, pictures)
    if _measure_distance(mean, deviation, expectation) < FAR:
        return
    others = {
        name: _measure_distance(*_measure_prepared(read_preprocess(values), pictures), expectation)
        for name, values in PREPROCESS.items()
    }
    best = min(others, key=lambda name: others[name])
    if others[best] > NEAR:
        return
    yield Finding(
        "OTHER_PREPROCESSING",
        WARNS,
        "Prepared samples lie around %(own_mean)s ± %(own_deviation)s; the model was trained on about "
        "%(mean)s ± %(deviation)s.",
        "The preprocessing %(preset)s would fit.",
        MODEL,
        detail={
            "own_mean": _format_number(mean),
            "own_deviation": _format_number(deviation),
            "preset": LABELS[best],
            "mean": _format_number(expectation.mean or 0.0),
            "deviation": _format_number(expectation.deviation or 0.0),
        },
    )


def _measure_prepared(preprocess: Preprocess, pictures: Sequence[PictureStats]) -> tuple[float, float]:
    """Returns mean and deviation of the values after the preprocessing."""
    gray = sum(p.mean for p in pictures) / len(pictures)
    spread = sum(p.deviation for p in pictures) / len(pictures)
    mean = sum(_prepare_pixel(preprocess, gray, c) for c in range(_count_channels(preprocess))) / _count_channels(
        preprocess
    )
    return mean, spread * abs(preprocess.scale) * sum(1 / s for s in preprocess.std) / len(preprocess.std)


def _measure_distance(mean: float, deviation: float, expectation: ExpectedRange) -> float:
    """Returns the distance of these values from the expected ones: 0 if equal, 1 for about one deviation or a factor of
    e."""
    if not expectation.deviation or expectation.mean is None or deviation <= 0:
        return 0.0
    return abs(math.log(deviation / expectation.deviation)) + abs(mean - expectation.mean) / expectation.deviation


def _check_against_custom(low: float, high: float, expectation: ExpectedRange) -> Iterator[Finding]:
    if expectation.deviation is not None:
        return
    detail = {"low": _format_number(low), "high": _format_number(high)}
    if high - low > 2 * BYTES_HIGH:
        yield Finding(
            "BYTES_RANGE",
            INFORMS if expectation.why == "constants" else WARNS,
            "Pixel values span %(low)s…%(high)s after your scale; most models expect 0…1 or -1…1.",
            "Keep this only if the model was trained on raw pixels.",
            FIELD,
            detail=detail,
        )
    elif high - low < TINY_SPAN:
        yield Finding(
            "TINY_RANGE",
            WARNS,
            "Pixel values span only %(low)s…%(high)s after your scale.",
            "They may have been scaled twice: with std in pixel values, scale must be 1.",
            FIELD,
            detail=detail,
        )


def _find_span(preprocess: Preprocess) -> tuple[float, float]:
    """Returns the lowest and highest value that a pixel can become."""
    ends = [_prepare_pixel(preprocess, pixel, c) for pixel in (0, 255) for c in range(_count_channels(preprocess))]
    return min(ends), max(ends)


def _count_channels(preprocess: Preprocess) -> int:
    return max(len(preprocess.mean), len(preprocess.std))


def _prepare_pixel(preprocess: Preprocess, pixel: float, channel: int) -> float:
    mean = preprocess.mean[channel % len(preprocess.mean)]
    return (pixel * preprocess.scale - mean) / preprocess.std[channel % len(preprocess.std)]


def _format_number(value: float) -> str:
    return f"{value:.3g}" if abs(value) >= 1e-6 else "0"
