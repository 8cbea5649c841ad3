"""Pictures as they cross the network: JPEG, and PNG for those so small that JPEG would spoil them.

Reads nothing else: whoever sends bytes here chooses the decoder with them, and there are two.
"""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, UnidentifiedImageError

from app.conversion.toolchains.samples.pictures import DECODER_ERRORS, upright
from app.inference.errors import DamagedPicture
from app.inference.prediction import Picture
from app.kit.text.error_text import reason_of

JPEG = "image/jpeg"
PNG = "image/png"
SMALL_SIDE = 32
"""Pictures with both sides below it are sent without loss."""
QUALITY = 85
MAX_PIXELS = 25_000_000
"""A picture above it is refused before its pixels are unpacked: 75 MB."""

_ERRORS = (*DECODER_ERRORS, Image.DecompressionBombWarning)
_GRAY = frozenset({"1", "L", "LA", "La", "I", "F"})


def encode(picture: Picture, quality: int = QUALITY) -> tuple[bytes, str]:
    """The bytes and their content type. quality: of JPEG, 1..95."""
    image, buffer = Image.fromarray(picture), io.BytesIO()
    if max(image.size) < SMALL_SIDE:
        image.save(buffer, "PNG")
        return buffer.getvalue(), PNG
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue(), JPEG


def decode(data: bytes, max_pixels: int = MAX_PIXELS) -> Picture:
    """The pixels of a JPEG or PNG: grey as H×W, any other as RGB, turned as its EXIF data says, without alpha.

    Raises DamagedPicture, with the decoder's reason, for anything else and for a picture above max_pixels.
    """
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            if image.width * image.height > max_pixels:
                raise DamagedPicture(
                    f"{image.width} x {image.height} pixels are more than the {max_pixels:,} that are read",
                    hint="Send a smaller picture.",
                )
            image.load()
            return _pixels(image)
    except _ERRORS as error:
        raise DamagedPicture(
            f"these {len(data)} bytes cannot be read as a picture: {_reason(error)}", hint="Send a whole JPEG or PNG."
        ) from error


def _pixels(image: Image.Image) -> Picture:
    if image.mode.startswith("I;"):
        deep = (np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8)
        return np.asarray(upright(Image.fromarray(deep), image))
    gray = image.mode in _GRAY
    return np.asarray(upright(image.convert("L" if gray else "RGB"), image))


def _reason(error: BaseException) -> str:
    return "it is neither JPEG nor PNG" if isinstance(error, UnidentifiedImageError) else reason_of(error)
