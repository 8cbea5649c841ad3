"""Pictures as model inputs: decoding, colour, size, normalization.

What is read agrees with cv2.imread's default: EXIF orientation applied, alpha dropped, 16 bits per channel brought
to 8. Resizing is Pillow's bilinear filter, which widens its support when it shrinks a picture (no aliasing).
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pillow_heif
from PIL import Image, UnidentifiedImageError

from app.conversion.errors import DamagedImage, UnsupportedInput, WrongSampleShape
from app.conversion.options import Preprocess
from app.conversion.toolchains.samples.spec import InputSpec, static_shape
from app.kit.errors import BadInput
from app.kit.text.error_text import reason_of

Pixels = npt.NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "BMP", "DIB", "WEBP", "PPM", "GIF", "TIFF", "AVIF", "HEIF")
pillow_heif.register_heif_opener(thumbnails=False, decode_threads=1)
MAX_PIXELS = 100_000_000
"""A picture above this is refused before its pixels are unpacked: it would need over 300 MB."""
EXIF_ORIENTATION = 0x0112
MIN_INTEGER_SPAN = 16
"""An integer input that black to white covers in fewer steps than this was given the scale of a float input."""

DECODER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    EOFError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
"""Pillow's decoders have no common error class; these are what damaged files make them raise."""

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class Layout:
    """Where an image input keeps its axes. shape: the whole of it, batch included."""

    shape: tuple[int, ...]
    order: Literal["NCHW", "NHWC"]

    @property
    def channels(self) -> int:
        return self.shape[self.order.index("C")]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.shape[self.order.index("W")], self.shape[self.order.index("H")]


def layout_of(spec: InputSpec) -> Layout:
    """Rank 4 with 1 or 3 channels on axis 1 (NCHW, tried first) or axis 3 (NHWC). Raises WrongSampleShape."""
    shape = static_shape(spec)
    if len(shape) == 4 and shape[1] in (1, 3):
        return Layout(shape, "NCHW")
    if len(shape) == 4 and shape[3] in (1, 3):
        return Layout(shape, "NHWC")
    raise WrongSampleShape(
        f"pictures do not fit the input {spec.name!r} of shape {list(shape)}",
        hint="Pictures need an input of four axes with 1 or 3 channels; for others send .npy or .npz arrays.",
        detail={"input": spec.name, "expected": list(shape)},
    )


def _refuse_huge_input(layout: Layout, spec: InputSpec) -> None:
    width, height = layout.size
    if width * height > MAX_PIXELS:
        raise UnsupportedInput(
            f"the input {spec.name!r} takes pictures of {width} x {height} pixels, more than {MAX_PIXELS:,}",
            hint="Export the model for smaller pictures.",
            detail={"input": spec.name, "shape": list(layout.shape)},
        )


def preprocess_image(path: Path, spec: InputSpec, preprocess: Preprocess) -> npt.NDArray[Any]:
    """The picture as an array of the input's whole shape and dtype; a fixed batch above 1 repeats the picture.

    x = (pixel * scale - mean) / std. Raises DamagedImage, WrongSampleShape (not an image input), BadInput (options
    that do not fit the input).
    """
    return ImageReader(spec, preprocess).read(path)


class ImageReader:
    """Reads pictures for one input. The formula is one table of 256 values per channel, so it costs one lookup.

    Raises WrongSampleShape, UnsupportedInput or BadInput when the input or the options cannot work with pictures.
    """

    def __init__(self, spec: InputSpec, preprocess: Preprocess) -> None:
        self.layout = layout_of(spec)
        _refuse_huge_input(self.layout, spec)
        self._options = preprocess
        self._color = _color(preprocess, self.layout.channels, spec.name)
        self._table = _table(preprocess, self.layout.channels, spec)

    def read(self, path: Path) -> npt.NDArray[Any]:
        """One picture as an array of the input's shape and dtype. Raises DamagedImage with the decoder's reason."""
        pixels = self._pixels(path)
        channels = [self._table[c][pixels[:, :, c]] for c in range(self.layout.channels)]
        axis = 0 if self.layout.order == "NCHW" else 2
        return np.repeat(np.stack(channels, axis)[np.newaxis], self.layout.shape[0], axis=0)

    def verify(self, path: Path) -> None:
        """Decode a picture to its last byte and keep nothing. Raises DamagedImage as `read` does, several times faster:
        a JPEG is decoded at an eighth of its size, and nothing is fitted to the input."""
        with _decoding(path), Image.open(path, formats=FORMATS) as picture:
            _refuse_huge(picture)
            picture.draft(picture.mode, (1, 1))
            picture.load()

    def _pixels(self, path: Path) -> Pixels:
        """Height x width x channels, in the channel order of the options."""
        with _decoding(path):
            picture = _fit(_open(path, self._color), self.layout.size, self._options)
        pixels: Pixels = np.asarray(picture).reshape(picture.height, picture.width, -1)
        return pixels[:, :, ::-1] if self._color == "BGR" else pixels


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    """Whatever a decoder raises becomes DamagedImage, naming the file and the reason."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except DECODER_ERRORS as error:
        raise DamagedImage(
            f"{path.name} cannot be read as a picture: {_reason(error)}",
            hint="Replace the file, or leave it out.",
            detail={"reason": _reason(error)},
        ) from error


def _refuse_huge(picture: Image.Image) -> None:
    if picture.width * picture.height > MAX_PIXELS:
        raise ValueError(f"{picture.width} x {picture.height} pixels are more than {MAX_PIXELS:,}")


def _open(path: Path, color: str) -> Image.Image:
    with Image.open(path, formats=FORMATS) as picture:
        _refuse_huge(picture)
        picture.load()
        turned = upright(_eight_bits(picture))
    return turned.convert("L" if color == "GRAY" else "RGB")


def _eight_bits(picture: Image.Image) -> Image.Image:
    """16-bit gray brought to 8 bits. Pillow itself would clip every value above 255."""
    if picture.mode == "F":
        raise ValueError("floating-point pixels have no known range; send the array as .npy instead")
    if picture.mode != "I" and not picture.mode.startswith("I;"):
        return picture
    values = np.clip(np.asarray(picture).astype(np.int64) >> 8, 0, 255).astype(np.uint8)
    gray = Image.fromarray(values)
    gray.getexif().update({EXIF_ORIENTATION: _orientation(picture)})
    return gray


def upright(picture: Image.Image, original: Image.Image | None = None) -> Image.Image:
    """Turned as its EXIF data says, or that of the original which it was made of."""
    turn = _TURNS.get(_orientation(original or picture))
    return picture if turn is None else picture.transpose(turn)


def _orientation(picture: Image.Image) -> int:
    """1..8; 1 (as stored) where the EXIF data says nothing or is damaged, which does not spoil the pixels."""
    try:
        value = picture.getexif().get(EXIF_ORIENTATION, 1)
    except DECODER_ERRORS:
        return 1
    return value if isinstance(value, int) else 1


def letterbox(source: tuple[int, int], target: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Width and height of the whole picture inside of the target, and the place of its upper left corner there."""
    ratio = min(target[0] / source[0], target[1] / source[1])
    inner = max(1, round(source[0] * ratio)), max(1, round(source[1] * ratio))
    return inner, ((target[0] - inner[0]) // 2, (target[1] - inner[1]) // 2)


def _fit(picture: Image.Image, size: tuple[int, int], options: Preprocess) -> Image.Image:
    if options.resize == "stretch":
        return picture.resize(size, Image.Resampling.BILINEAR)
    inner, place = letterbox(picture.size, size)
    canvas = Image.new(picture.mode, size, (options.pad_value,) * len(picture.getbands()))
    canvas.paste(picture.resize(inner, Image.Resampling.BILINEAR), place)
    return canvas


def _color(options: Preprocess, channels: int, name: str) -> str:
    color = options.color
    if color == "auto":
        return "GRAY" if channels == 1 else "RGB"
    if (color == "GRAY") != (channels == 1):
        raise BadInput(
            f"preprocess.color is {color}, but the input {name!r} has {channels} channel(s)",
            hint="Use GRAY for one channel, RGB or BGR for three, or auto.",
        )
    return color


def _table(options: Preprocess, channels: int, spec: InputSpec) -> npt.NDArray[Any]:
    """Value of every pixel level: channels x 256, in the input's dtype."""
    mean, std = _per_channel(options, "mean", channels, spec), _per_channel(options, "std", channels, spec)
    with np.errstate(all="ignore"):
        values = (np.arange(256) * options.scale - mean[:, None]) / std[:, None]
    dtype = np.dtype(spec.dtype)
    if dtype.kind in "iu":
        return _integers(values, dtype, spec)
    with np.errstate(all="ignore"):
        table = values.astype(dtype)
    if not np.isfinite(table.astype(np.float64)).all():
        raise BadInput(
            f"preprocess gives values that {spec.dtype} cannot hold (scale {options.scale}, std {list(options.std)})",
            hint="Check scale, mean and std: x = (pixel * scale - mean) / std.",
        )
    return table


def _integers(values: npt.NDArray[np.float64], dtype: np.dtype[Any], spec: InputSpec) -> npt.NDArray[Any]:
    limits = np.iinfo(dtype)
    levels = np.rint(np.clip(values, limits.min, limits.max))
    if (np.ptp(levels, axis=1) < MIN_INTEGER_SPAN).any():
        raise BadInput(
            f"the input {spec.name!r} is {spec.dtype}, and the preprocess options leave almost nothing of a picture",
            hint="For integer inputs set preprocess.scale to 1.",
        )
    return levels.astype(dtype)


def _per_channel(options: Preprocess, field: str, channels: int, spec: InputSpec) -> npt.NDArray[np.float64]:
    values: tuple[float, ...] = getattr(options, field)
    if len(values) not in (1, channels):
        raise BadInput(
            f"preprocess.{field} has {len(values)} values, but the input {spec.name!r} has {channels} channel(s)",
            hint=f"Give one value, or {channels}.",
        )
    return np.broadcast_to(np.asarray(values, dtype=np.float64), (channels,))


def _reason(error: BaseException) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not a picture in a known format"
    return reason_of(error)
