"""Do the values of the prepared samples lie where the model expects them? Pure; the model's side is measured once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.conversion.intake.findings import FIELD, INFORMS, MODEL, WARNS, Finding
from app.conversion.intake.measures import Numbers, Picture
from app.conversion.options import Preprocess

APART = 6.0
"""A spread that differs from the expected one by more than this factor is another scale, not another scene."""
OFF_CENTRE = 2.5
"""A mean this many expected deviations away is another offset. Even a night scene stays within two."""
BYTES_HIGH, TINY_SPAN = 16.0, 0.05
USUAL_HIGH = 16.0
BGR_MEANS = (103.939, 116.779, 123.68)
RGB_MEANS = tuple(reversed(BGR_MEANS))
IMAGENET = (0.485, 0.456, 0.406)


@dataclass(frozen=True)
class Expectation:
    """What the first layers tell about the input: mean and deviation of its values, None where nothing is told.

    order: RGB or BGR where a constant of the model gives it away. why: batchnorm, constants or "".
    """

    mean: float | None = None
    deviation: float | None = None
    order: str = ""
    why: str = ""


def judge_pictures(
    preprocess: Preprocess, pictures: Sequence[Picture], expectation: Expectation
) -> Iterator[Finding]:
    low, high = _span(preprocess)
    gray = sum(p.mean for p in pictures) / len(pictures)
    spread = sum(p.deviation for p in pictures) / len(pictures)
    mean = sum(_value(preprocess, gray, c) for c in range(_channels(preprocess))) / _channels(preprocess)
    deviation = spread * preprocess.scale * sum(1 / s for s in preprocess.std) / len(preprocess.std)
    told = list(_against_model(mean, deviation, low, high, expectation))
    yield from told or _against_custom(low, high, expectation)


def judge_arrays(arrays: Sequence[Numbers], expectation: Expectation) -> Iterator[Finding]:
    if not arrays:
        return
    low, high = min(a.low for a in arrays), max(a.high for a in arrays)
    mean = sum(a.mean for a in arrays) / len(arrays)
    deviation = sum(a.deviation for a in arrays) / len(arrays)
    told = list(_against_model(mean, deviation, low, high, expectation))
    if told or expectation.deviation is not None:
        yield from told
    elif high > USUAL_HIGH and low >= 0 and high <= 255:
        yield Finding(
            "ARRAYS_IN_BYTES", WARNS, "The arrays hold values of %(low)s…%(high)s, as raw pixels do.",
            "Arrays are not preprocessed: scale and normalize them as in training.", FIELD,
            detail={"low": _text(low), "high": _text(high)},
        )  # fmt: skip


def judge_channel_order(
    preprocess: Preprocess, channels: int | None, expectation: Expectation
) -> Iterator[Finding]:
    if channels != 3:
        return
    color = "RGB" if preprocess.color == "auto" else preprocess.color
    if expectation.order and expectation.order != color:
        yield Finding(
            "CHANNEL_ORDER", WARNS,
            "The model subtracts means in the order %(order)s, but pictures are given as %(color)s.",
            "Choose %(order)s as channel order.", MODEL, detail={"order": expectation.order, "color": color},
        )  # fmt: skip
        return
    told = order_of(preprocess.mean)
    if told and told != color:
        yield Finding(
            "MEAN_ORDER", WARNS, "These means are known in the order %(order)s, but pictures are given as %(color)s.",
            "Choose %(order)s as channel order, or turn the means around.", FIELD,
            detail={"order": told, "color": color},
        )  # fmt: skip


def order_of(means: Sequence[float]) -> str:
    """RGB or BGR when these are ImageNet's means in one order or the other."""
    for known, name in ((RGB_MEANS, "RGB"), (BGR_MEANS, "BGR"), (IMAGENET, "RGB"), (IMAGENET[::-1], "BGR")):
        if len(means) == 3 and all(abs(m - k) <= 0.02 * k for m, k in zip(means, known, strict=True)):
            return name
    return ""


def _against_model(
    mean: float, deviation: float, low: float, high: float, expectation: Expectation
) -> Iterator[Finding]:
    if expectation.deviation is None or expectation.mean is None or deviation <= 0:
        return
    factor = deviation / expectation.deviation
    offset = abs(mean - expectation.mean) / expectation.deviation
    detail = {
        "low": _text(low), "high": _text(high), "mean": _text(expectation.mean),
        "deviation": _text(expectation.deviation),
    }  # fmt: skip
    if factor > APART or factor < 1 / APART:
        yield Finding(
            "WRONG_SCALE", WARNS,
            "Prepared samples span %(low)s…%(high)s; the model was trained on values around %(mean)s ± %(deviation)s.",
            "Choose the preprocessing the model was trained with.", MODEL, detail=detail,
        )  # fmt: skip
    elif offset > OFF_CENTRE:
        yield Finding(
            "WRONG_OFFSET", WARNS,
            "Prepared samples span %(low)s…%(high)s; the model was trained on values around %(mean)s ± %(deviation)s.",
            "Check the mean that is subtracted.", MODEL, detail=detail,
        )  # fmt: skip


def _against_custom(low: float, high: float, expectation: Expectation) -> Iterator[Finding]:
    if expectation.deviation is not None:
        return
    detail = {"low": _text(low), "high": _text(high)}
    if high - low > 2 * BYTES_HIGH:
        yield Finding(
            "BYTES_RANGE", INFORMS if expectation.why == "constants" else WARNS,
            "Pixel values span %(low)s…%(high)s after your scale; most models expect 0…1 or -1…1.",
            "Keep this only if the model was trained on raw pixels.", FIELD, detail=detail,
        )  # fmt: skip
    elif high - low < TINY_SPAN:
        yield Finding(
            "TINY_RANGE", WARNS, "Pixel values span only %(low)s…%(high)s after your scale.",
            "They may have been scaled twice: with std in pixel values, scale must be 1.", FIELD, detail=detail,
        )  # fmt: skip


def _span(preprocess: Preprocess) -> tuple[float, float]:
    """Lowest and highest value a pixel can become."""
    ends = [_value(preprocess, pixel, c) for pixel in (0, 255) for c in range(_channels(preprocess))]
    return min(ends), max(ends)


def _channels(preprocess: Preprocess) -> int:
    return max(len(preprocess.mean), len(preprocess.std))


def _value(preprocess: Preprocess, pixel: float, channel: int) -> float:
    mean = preprocess.mean[channel % len(preprocess.mean)]
    return (pixel * preprocess.scale - mean) / preprocess.std[channel % len(preprocess.std)]


def _text(value: float) -> str:
    return f"{value:.3g}" if abs(value) >= 1e-6 else "0"
