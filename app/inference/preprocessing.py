"""A picture as the input of a model: color, size, normalization.

The only place with this arithmetic. The converter uses it for its reference samples and nodes for their models, so a
model runs on the inputs it was calibrated with: Pillow's bilinear filter, which widens its support when it shrinks a
picture (no aliasing), letterbox bars on both sides, one table of 256 values per channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from app.inference.errors import ModelUnusable
from app.inference.prediction import Picture
from app.inference.preprocess_options import Preprocess, read_preprocess
from app.kit.errors import BadInput
from app.kit.text.json_form import FormError

if TYPE_CHECKING:  # nodes do without it
    from app.inference.preprocess_options import Preprocess

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.floating]
AxisOrder = Literal["NCHW", "NHWC"]
Size = tuple[int, int]
"""Width and height."""
Shape = tuple[int | None, ...]
"""None for axes that the model leaves open."""


@dataclass(frozen=True)
class Layout:
    """The order of an image input's axes."""

    shape: tuple[int, ...]
    """The complete shape, including the batch."""
    order: AxisOrder

    @property
    def channels(self) -> int:
        return self.shape[self.order.index("C")]

    @property
    def size(self) -> Size:
        """Width and height in pixels."""
        return self.shape[self.order.index("W")], self.shape[self.order.index("H")]


@dataclass(frozen=True)
class Fit:
    """The position of a picture in the input."""

    source: Size
    """Size of the picture."""
    inner: Size
    """Size of the picture in the input."""
    place: Size = (0, 0)
    """Position of its upper left corner in the input."""

    def to_source(self, corners: Floats) -> Floats:
        """Converts corners x1, y1, x2, y2 from pixels of the input, N×4, to pixels of the picture, clipped to it."""
        return self.points_to_source(corners.reshape(-1, 2, 2)).reshape(-1, 4)

    def points_to_source(self, points: Floats) -> Floats:
        """Converts points x, y from pixels of the input, …×2, to pixels of the picture, clipped to it."""
        ratio = np.array([s / i for s, i in zip(self.source, self.inner, strict=True)], dtype=np.float32)
        moved = (points - np.array(self.place, dtype=np.float32)) * ratio
        clipped: Floats = np.clip(moved, 0, np.array(self.source, dtype=np.float32))
        return clipped


def fit_of(source: Size, target: Size, resize: Literal["stretch", "letterbox"]) -> Fit:
    """Fits a picture into the target: stretch fills it; letterbox keeps the picture's shape and leaves bars on both
    sides."""
    if resize == "stretch":
        return Fit(source, target)
    ratio = min(target[0] / source[0], target[1] / source[1])
    inner = max(1, round(source[0] * ratio)), max(1, round(source[1] * ratio))
    return Fit(source, inner, ((target[0] - inner[0]) // 2, (target[1] - inner[1]) // 2))


def axis_order(shape: Shape) -> AxisOrder | None:
    """Returns the order of four axes with 1 or 3 channels on axis 1 (tried first) or 3; None for a shape that takes no
    pictures."""
    if len(shape) != 4:
        return None
    if shape[1] in (1, 3):
        return "NCHW"
    return "NHWC" if shape[3] in (1, 3) else None


def input_layout(shape: Shape, size: Size) -> Layout:
    """Returns the layout of a model's input. An open batch is 1, open sides are those of `size`.

    Raises:
        ModelUnusable: The shape takes no pictures, or its sides are open and `size` has none.
    """
    order = axis_order(shape)
    if order is None:
        raise ModelUnusable(
            f"the model's input of shape {shape_text(shape)} takes no pictures",
            hint="Pictures need an input of four axes, with 1 or 3 channels on the second or the last.",
        )
    usual = {"N": 1, "C": 0, "W": size[0], "H": size[1]}
    whole = tuple(usual[axis] if side is None else side for axis, side in zip(order, shape, strict=True))
    if 0 in whole:
        raise ModelUnusable(
            f"the model's input of shape {shape_text(shape)} leaves width and height open",
            hint="Convert the model with fixed input shapes, or give the size of its input.",
        )
    return Layout(whole, order)


def shape_text(shape: Shape) -> str:
    """Writes a shape for readers: [1, 3, ?, ?]."""
    return "[" + ", ".join("?" if side is None else str(side) for side in shape) + "]"


def preparation_of(base: Preprocess, card: Mapping[str, Any], overrides: Mapping[str, Any]) -> Preprocess:
    """Returns the preprocessing of the card, with `base` for missing fields, and the overrides.

    Raises:
        ModelUnusable: A value is not valid.
    """
    try:
        chosen = read_preprocess(card) if card else base
        return read_preprocess(overrides, chosen) if overrides else chosen
    except FormError as error:
        raise ModelUnusable(
            f"preprocess.{error}", hint="Fields are color, resize, pad_value, scale, mean and std."
        ) from error


class Preprocessor:
    """Prepares pictures for one input. Keeps no state between pictures, so threads may share it.

    The formula is one table of 256 values per channel, so it costs one lookup.

    Args:
        layout: Of the input.
        dtype: Of the input, a numpy name.
        options: What was chosen for it.
        subject: The input, as messages name it.
        error: The class that is raised where the options do not fit the input.
    """

    def __init__(
        self,
        layout: Layout,
        dtype: str,
        options: Preprocess,
        *,
        subject: str = "the model's input",
        error: type[BadInput] = ModelUnusable,
    ) -> None:
        self.layout = layout
        self._options = options
        self._dtype = np.dtype(dtype)
        self._subject, self._error = subject, error
        mode, self._bands = self._get_bands()
        self.mode = mode
        """Pillow's mode of the images that `fit` accepts: L or RGB."""
        self.table = self._build_table()
        """Result for every pixel level: channels × 256, in the input's dtype."""

    def prepare(self, picture: Picture) -> tuple[Array, Fit]:
        """Returns the input with its complete shape and dtype, and the position of the picture in it."""
        image = Image.fromarray(picture)
        fitted, fit = self.fit(image if image.mode == self.mode else image.convert(self.mode))
        return self.values(fitted), fit

    def fit(self, image: Image.Image) -> tuple[Image.Image, Fit]:
        """Returns an image of `mode` in the input's size, and the position in it."""
        size = self.layout.size
        fit = fit_of(image.size, size, self._options.resize)
        resized = image if image.size == fit.inner else image.resize(fit.inner, Image.Resampling.BILINEAR)
        if fit.inner == size:
            return resized, fit
        canvas = Image.new(image.mode, size, (self._options.pad_value,) * len(image.getbands()))
        canvas.paste(resized, fit.place)
        return canvas, fit

    def values(self, fitted: Image.Image) -> Array:
        """Returns the input for an image from `fit`, with its complete shape and dtype. A fixed batch above 1 repeats
        it."""
        bands = fitted.split()
        width, height = self.layout.size
        values = np.empty((self.layout.channels, height, width), self._dtype)
        for channel, band in enumerate(self._bands):
            np.take(self.table[channel], np.asarray(bands[band]), out=values[channel], mode="clip")
        if self.layout.order == "NHWC":
            values = np.ascontiguousarray(values.transpose(1, 2, 0))
        batch = self.layout.shape[0]
        return values[np.newaxis] if batch == 1 else np.repeat(values[np.newaxis], batch, axis=0)

    def _get_bands(self) -> tuple[str, tuple[int, ...]]:
        """Returns Pillow's mode, and the band of each channel."""
        channels = self.layout.channels
        color = self._options.color if self._options.color != "auto" else ("GRAY" if channels == 1 else "RGB")
        if (color == "GRAY") != (channels == 1):
            raise self._error(
                f"preprocess.color is {color}, but {self._subject} has {channels} channel(s)",
                hint="Use GRAY for one channel, RGB or BGR for three, or auto.",
            )
        return {"GRAY": ("L", (0,)), "RGB": ("RGB", (0, 1, 2)), "BGR": ("RGB", (2, 1, 0))}[color]

    def _build_table(self) -> Array:
        options, dtype = self._options, self._dtype
        mean, std = self._repeat_per_channel("mean"), self._repeat_per_channel("std")
        with np.errstate(all="ignore"):
            values = (np.arange(256) * options.scale - mean[:, None]) / std[:, None]
            if dtype.kind in "iu":
                limits = np.iinfo(dtype)
                return np.rint(np.clip(values, limits.min, limits.max)).astype(dtype)
            table = values.astype(dtype)
        if not np.isfinite(table.astype(np.float64)).all():
            raise self._error(
                f"preprocess gives values that {dtype} cannot hold (scale {options.scale}, std {list(options.std)})",
                hint="Check scale, mean and std: x = (pixel * scale - mean) / std.",
            )
        return table

    def _repeat_per_channel(self, field: Literal["mean", "std"]) -> npt.NDArray[np.float64]:
        values: tuple[float, ...] = getattr(self._options, field)
        channels = self.layout.channels
        if len(values) not in (1, channels):
            raise self._error(
                f"preprocess.{field} has {len(values)} values, but {self._subject} has {channels} channel(s)",
                hint=f"Give one value, or {channels}.",
            )
        return np.broadcast_to(np.asarray(values, dtype=np.float64), (channels,))
