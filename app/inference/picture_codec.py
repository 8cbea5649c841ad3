"""Pictures on the network: JPEG, and PNG for those that are too small for JPEG.

`decode` reads nothing else: the sender of the bytes chooses the decoder with them, and there are two. The converter
reads more formats, and converts them to pixels in the same way; both agree with cv2.imread's default: EXIF orientation
applied, alpha dropped, 16 bits per channel brought to 8.
"""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
from PIL import Image, UnidentifiedImageError

from app.inference.errors import DamagedPicture
from app.inference.prediction import Picture
from app.kit.text.plain_text import reason_of

JPEG = "image/jpeg"
PNG = "image/png"
SMALL_SIDE = 32
"""Pictures with both sides below this are sent without loss."""
QUALITY = 85
MAX_PIXELS = 25_000_000
"""Pictures above this are refused before their pixels are unpacked: 75 MB."""

EXIF_ORIENTATION = 0x0112
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
"""Errors that damaged files cause in Pillow's decoders, which have no common error class."""

_ERRORS = (*DECODER_ERRORS, Image.DecompressionBombWarning)
_GRAY = frozenset({"1", "L", "LA", "La"})
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def encode(picture: Picture, quality: int = QUALITY) -> tuple[bytes, str]:
    """Returns the bytes and their content type.

    Args:
        quality: of JPEG, 1..95.
    """
    image, buffer = Image.fromarray(picture), io.BytesIO()
    if max(image.size) < SMALL_SIDE:
        image.save(buffer, "PNG")
        return buffer.getvalue(), PNG
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue(), JPEG


def decode(data: bytes, max_pixels: int = MAX_PIXELS) -> Picture:
    """Returns the pixels of a JPEG or PNG: gray as H×W, others as RGB, rotated according to their EXIF data, without
    alpha.

    Args:
        max_pixels: largest picture.

    Raises:
        DamagedPicture: It is something else, damaged (with the decoder's reason) or too large.
    """
    try:
        with Image.open(io.BytesIO(data), formats=("JPEG", "PNG")) as image:
            if image.width * image.height > max_pixels:
                raise DamagedPicture(
                    f"{image.width} x {image.height} pixels are more than the {max_pixels:,} that are read",
                    hint="Send a smaller picture.",
                )
            image.load()
            return _read_pixels(image)
    except _ERRORS as error:
        raise DamagedPicture(
            f"these {len(data)} bytes cannot be read as a picture: {_describe_reason(error)}",
            hint="Send a whole JPEG or PNG.",
        ) from error


def eight_bits(image: Image.Image) -> Image.Image:
    """Converts 16-bit gray to 8 bits; Pillow itself would clip every value above 255. Others stay as they are.

    Raises:
        ValueError: The pixels are floating-point numbers, whose range is not known.
    """
    if image.mode == "F":
        raise ValueError("floating-point pixels have no known range; send the array as .npy instead")
    if image.mode != "I" and not image.mode.startswith("I;"):
        return image
    values = np.clip(np.asarray(image).astype(np.int64) >> 8, 0, 255).astype(np.uint8)
    grey = Image.fromarray(values)
    grey.getexif().update({EXIF_ORIENTATION: _read_orientation(image)})
    return grey


def upright(image: Image.Image, original: Image.Image | None = None) -> Image.Image:
    """Rotates the picture according to its EXIF data, or that of the original from which it was made."""
    turn = _TURNS.get(_read_orientation(original or image))
    return image if turn is None else image.transpose(turn)


def _read_orientation(image: Image.Image) -> int:
    """Returns 1..8; 1 (as stored) if the EXIF data has none or is damaged, since the pixels are still good."""
    try:
        value = image.getexif().get(EXIF_ORIENTATION, 1)
    except DECODER_ERRORS:
        return 1
    return value if isinstance(value, int) else 1


def _read_pixels(image: Image.Image) -> Picture:
    shallow = eight_bits(image)
    return np.asarray(upright(shallow.convert("L" if shallow.mode in _GRAY else "RGB"), image))


def _describe_reason(error: BaseException) -> str:
    return "it is neither JPEG nor PNG" if isinstance(error, UnidentifiedImageError) else reason_of(error)
