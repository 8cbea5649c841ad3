"""A picture as the input of a model: colour, size, normalization.

The arithmetic is the one by which the converter reads its reference samples, so a converted model is fed with what it
was calibrated with: Pillow's bilinear filter, letterbox bars on both sides, one table of 256 values per channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image
from pydantic import ValidationError

from app.conversion.options import Preprocess
from app.conversion.toolchains.samples.pictures import Layout, letterbox
from app.inference.errors import ModelUnusable
from app.inference.prediction import Picture

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.floating]
Size = tuple[int, int]
"""Width and height."""
Shape = tuple[int | None, ...]
"""None: left open by the model."""


@dataclass(frozen=True)
class Fit:
    """Where a picture lies in the input. inner: its size there; place: of its upper left corner."""

    source: Size
    inner: Size
    place: Size = (0, 0)

    def to_source(self, corners: Floats) -> Floats:
        """Corners x1, y1, x2, y2 in pixels of the input, N×4, as pixels of the picture, clipped to it."""
        ratio = np.array([s / i for s, i in zip(self.source, self.inner, strict=True)] * 2, dtype=np.float32)
        moved = (corners - np.array(self.place * 2, dtype=np.float32)) * ratio
        clipped: Floats = np.clip(moved, 0, np.array(self.source * 2, dtype=np.float32))
        return clipped


def fit_of(source: Size, target: Size, resize: Literal["stretch", "letterbox"]) -> Fit:
    if resize == "stretch":
        return Fit(source, target)
    return Fit(source, *letterbox(source, target))


def input_layout(shape: Shape, size: Size) -> Layout:
    """Four axes with 1 or 3 channels on axis 1 (tried first) or 3; an open batch is 1, open sides are those of `size`.

    Raises ModelUnusable for another shape, and for open sides where `size` has none either.
    """
    if len(shape) != 4 or not (shape[1] in (1, 3) or shape[3] in (1, 3)):
        raise ModelUnusable(
            f"the model's input of shape {said(shape)} takes no pictures",
            hint="Pictures need an input of four axes, with 1 or 3 channels on the second or the last.",
        )
    order: Literal["NCHW", "NHWC"] = "NCHW" if shape[1] in (1, 3) else "NHWC"
    usual = {"N": 1, "C": 0, "W": size[0], "H": size[1]}
    whole = tuple(usual[axis] if side is None else side for axis, side in zip(order, shape, strict=True))
    if 0 in whole:
        raise ModelUnusable(
            f"the model's input of shape {said(shape)} leaves width and height open",
            hint="Convert the model with fixed input shapes, or give the size of its input.",
        )
    return Layout(whole, order)


def said(shape: Shape) -> str:
    """For a reader: [1, 3, ?, ?]."""
    return "[" + ", ".join("?" if side is None else str(side) for side in shape) + "]"


def preprocess_of(base: Preprocess, card: Mapping[str, Any], overrides: Mapping[str, Any]) -> Preprocess:
    """`base` where the card says nothing, then the overrides field by field. Raises ModelUnusable."""
    try:
        chosen = Preprocess.model_validate(dict(card)) if card else base
        return Preprocess.model_validate({**chosen.model_dump(), **overrides}) if overrides else chosen
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ModelUnusable(
            f"preprocess.{field}: {first['msg']}", hint="Fields are color, resize, pad_value, scale, mean and std."
        ) from error


class Preprocessor:
    """Prepares pictures for one input. Keeps no state between pictures, so threads may share it.

    Raises ModelUnusable where the options do not fit the input.
    """

    def __init__(self, layout: Layout, dtype: str, preprocess: Preprocess) -> None:
        self.layout = layout
        self._options = preprocess
        self._dtype = np.dtype(dtype)
        self._mode, self._bands = _channels(preprocess, layout.channels)
        self._table = _table(preprocess, layout.channels, self._dtype)

    def prepare(self, picture: Picture) -> tuple[Array, Fit]:
        """The input, of its whole shape and dtype (a fixed batch above 1 repeats the picture), and where it lies."""
        image = Image.fromarray(picture)
        image = image if image.mode == self._mode else image.convert(self._mode)
        fit = fit_of(image.size, self.layout.size, self._options.resize)
        bands = self._fitted(image, fit).split()
        width, height = self.layout.size
        values = np.empty((self.layout.channels, height, width), self._dtype)
        for channel, band in enumerate(self._bands):
            np.take(self._table[channel], np.asarray(bands[band]), out=values[channel], mode="clip")
        if self.layout.order == "NHWC":
            values = np.ascontiguousarray(values.transpose(1, 2, 0))
        batch = self.layout.shape[0]
        return (values[np.newaxis] if batch == 1 else np.repeat(values[np.newaxis], batch, axis=0)), fit

    def _fitted(self, image: Image.Image, fit: Fit) -> Image.Image:
        size = self.layout.size
        resized = image if image.size == fit.inner else image.resize(fit.inner, Image.Resampling.BILINEAR)
        if fit.inner == size:
            return resized
        canvas = Image.new(image.mode, size, (self._options.pad_value,) * len(image.getbands()))
        canvas.paste(resized, fit.place)
        return canvas


def _channels(options: Preprocess, channels: int) -> tuple[str, tuple[int, ...]]:
    """Pillow's mode, and which of its bands is each channel."""
    color = options.color if options.color != "auto" else ("GRAY" if channels == 1 else "RGB")
    if (color == "GRAY") != (channels == 1):
        raise ModelUnusable(
            f"preprocess.color is {color}, but the model's input has {channels} channel(s)",
            hint="Use GRAY for one channel, RGB or BGR for three, or auto.",
        )
    return {"GRAY": ("L", (0,)), "RGB": ("RGB", (0, 1, 2)), "BGR": ("RGB", (2, 1, 0))}[color]


def _table(options: Preprocess, channels: int, dtype: np.dtype[Any]) -> Array:
    """Value of every pixel level, (pixel * scale - mean) / std: channels × 256, in the input's dtype."""
    mean, std = (_per_channel(options, field, channels) for field in ("mean", "std"))
    with np.errstate(all="ignore"):
        values = (np.arange(256) * options.scale - mean[:, None]) / std[:, None]
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return np.rint(np.clip(values, limits.min, limits.max)).astype(dtype)
        table = values.astype(dtype)
    if not np.isfinite(table.astype(np.float64)).all():
        raise ModelUnusable(
            f"preprocess gives values that {dtype} cannot hold (scale {options.scale}, std {list(options.std)})",
            hint="Check scale, mean and std: x = (pixel * scale - mean) / std.",
        )
    return table


def _per_channel(options: Preprocess, field: str, channels: int) -> npt.NDArray[np.float64]:
    values: tuple[float, ...] = getattr(options, field)
    if len(values) not in (1, channels):
        raise ModelUnusable(
            f"preprocess.{field} has {len(values)} values, but the model's input has {channels} channel(s)",
            hint=f"Give one value, or {channels}.",
        )
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (channels,))
