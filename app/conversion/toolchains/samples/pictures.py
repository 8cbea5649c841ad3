"""Reference samples that are pictures: files of every supported format, as model inputs.

`app.inference.preprocessing` converts the pixels; models at runtime use it, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pillow_heif
from PIL import Image, UnidentifiedImageError

from app.conversion.errors import DamagedSamples, UnsupportedInput
from app.conversion.options import Preprocess
from app.conversion.toolchains.samples.spec import InputSpec, static_shape
from app.inference.errors import WrongSampleShape
from app.inference.picture_codec import DECODER_ERRORS, eight_bits, upright
from app.inference.preprocessing import Layout, Preprocessor, axis_order
from app.kit.errors import BadInput
from app.kit.text.plain_text import reason_of

__all__ = ["DECODER_ERRORS", "FORMATS", "MAX_PIXELS", "Layout", "PictureReader", "layout_of"]

FORMATS = ("JPEG", "PNG", "BMP", "DIB", "WEBP", "PPM", "GIF", "TIFF", "AVIF", "HEIF")
pillow_heif.register_heif_opener(thumbnails=False, decode_threads=1)
MAX_PIXELS = 100_000_000
"""A picture with more pixels is refused before it is decoded: it would need over 300 MB."""
MAX_BATCH_PIXELS = 10_000_000_000
"""Maximum number of pixels in a batch: NumPy cannot even count the bytes of some larger ones."""
MIN_INTEGER_SPAN = 16
"""An integer input that black to white covers in fewer steps than this was given the scale of a float input."""


def layout_of(spec: InputSpec) -> Layout:
    """Returns the layout: rank 4 with 1 or 3 channels on axis 1 (NCHW, tried first) or axis 3 (NHWC). Raises
    WrongSampleShape."""
    shape = static_shape(spec)
    order = axis_order(shape)
    if order is None:
        raise WrongSampleShape(
            f"pictures do not fit the input {spec.name!r} of shape {list(shape)}",
            hint="Pictures need an input of four axes with 1 or 3 channels; for others send .npy or .npz arrays.",
            detail={"input": spec.name, "expected": list(shape)},
        )
    return Layout(shape, order)


def _refuse_huge_input(layout: Layout, spec: InputSpec) -> None:
    width, height = layout.size
    if width * height > MAX_PIXELS:
        raise UnsupportedInput(
            f"the input {spec.name!r} takes pictures of {width} x {height} pixels, more than {MAX_PIXELS:,}",
            hint="Export the model for smaller pictures.",
            detail={"input": spec.name, "shape": list(layout.shape)},
        )
    if layout.shape[0] * width * height > MAX_BATCH_PIXELS:
        raise UnsupportedInput(
            f"the input {spec.name!r} takes {layout.shape[0]} pictures at once, more than any memory holds",
            hint="Export the model with a batch of 1.",
            detail={"input": spec.name, "shape": list(layout.shape)},
        )


class PictureReader:
    """Reads pictures for one input, with the arithmetic that also prepares them for a running model.

    x = (pixel * scale - mean) / std. A fixed batch above 1 repeats the picture.

    Raises:
        WrongSampleShape, UnsupportedInput, BadInput: The input or the options cannot work with pictures.
    """

    def __init__(self, spec: InputSpec, preprocess: Preprocess) -> None:
        self.layout = layout_of(spec)
        _refuse_huge_input(self.layout, spec)
        subject = f"the input {spec.name!r}"
        self._preprocessor = Preprocessor(self.layout, spec.dtype, preprocess, subject=subject, error=BadInput)
        _refuse_narrow(self._preprocessor.table, spec)

    def read(self, path: Path) -> npt.NDArray[Any]:
        """Returns a picture as an array of the input's shape and type.

        Raises:
            DamagedSamples: It cannot be decoded.
        """
        with _convert_errors(path):
            fitted, _ = self._preprocessor.fit(_open(path, self._preprocessor.mode))
        return self._preprocessor.values(fitted)

    def verify(self, path: Path) -> None:
        """Decodes a picture to its last byte and keeps nothing. This is several times faster than `read`: a JPEG is
        decoded at an eighth of its size, and nothing is fitted to the input.

        Raises:
            DamagedSamples: It cannot be decoded.
        """
        with _convert_errors(path), Image.open(path, formats=FORMATS) as picture:
            _refuse_huge(picture)
            picture.draft(picture.mode, (1, 1))
            picture.load()


@contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    """Converts every exception of a decoder to DamagedSamples, with the file and the reason."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except DECODER_ERRORS as error:
        raise DamagedSamples(
            f"{path.name} cannot be read as a picture: {_describe_reason(error)}",
            hint="Replace the file, or leave it out.",
            detail={"reason": _describe_reason(error)},
        ) from error


def _refuse_huge(picture: Image.Image) -> None:
    if picture.width * picture.height > MAX_PIXELS:
        raise ValueError(f"{picture.width} x {picture.height} pixels are more than {MAX_PIXELS:,}")


def _open(path: Path, mode: str) -> Image.Image:
    with Image.open(path, formats=FORMATS) as picture:
        _refuse_huge(picture)
        picture.load()
        turned = upright(eight_bits(picture))
    return turned.convert(mode)


def _refuse_narrow(table: npt.NDArray[Any], spec: InputSpec) -> None:
    if table.dtype.kind in "iu" and (np.ptp(table.astype(np.float64), axis=1) < MIN_INTEGER_SPAN).any():
        raise BadInput(
            f"the input {spec.name!r} is {spec.dtype}, and the preprocess options leave almost nothing of a picture",
            hint="For integer inputs set preprocess.scale to 1.",
        )


def _describe_reason(error: BaseException) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "not a picture in a known format"
    return reason_of(error)
