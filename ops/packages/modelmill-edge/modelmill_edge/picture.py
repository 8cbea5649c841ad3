"""Pictures on their way to a worker, and as a worker of one's own receives them."""

from __future__ import annotations

import io
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

JPEG, PNG = "image/jpeg", "image/png"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, RGB = 0, 2
"""Color types of PNG."""
PictureLike = Union[str, "os.PathLike[str]", bytes, Any]
"""A path, the bytes of a JPEG or PNG, an array (H×W×3 RGB or H×W grey, uint8), or a Pillow image."""


@dataclass(frozen=True)
class Picture:
    """A JPEG or PNG as it was received."""

    data: bytes
    content_type: str = JPEG

    def array(self) -> Any:
        """The pixels as H×W×3 RGB, uint8. Needs the extra `pictures`."""
        import numpy as np
        from PIL import Image, ImageOps

        with Image.open(io.BytesIO(self.data)) as image:
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def encode(picture: PictureLike) -> Picture:
    """Makes a picture ready to send. Arrays and Pillow images become PNG, without loss.

    Raises:
        TypeError: it is none of the kinds of PictureLike.
        ValueError: an array of another shape or type, or bytes that are neither JPEG nor PNG.
        OSError: the file cannot be read.
    """
    if isinstance(picture, (str, os.PathLike)):
        return _of_bytes(Path(picture).read_bytes())
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return _of_bytes(bytes(picture))
    if hasattr(picture, "save") and hasattr(picture, "mode"):
        buffer = io.BytesIO()
        (picture if picture.mode in ("L", "RGB") else picture.convert("RGB")).save(buffer, "PNG", compress_level=1)
        return Picture(buffer.getvalue(), PNG)
    if hasattr(picture, "tobytes") and hasattr(picture, "shape"):
        return Picture(_png_of(picture), PNG)
    raise TypeError(f"{type(picture).__name__} is no picture: give a path, bytes, an array or a Pillow image.")


def _of_bytes(data: bytes) -> Picture:
    if data.startswith(PNG_SIGNATURE):
        return Picture(data, PNG)
    if data.startswith(b"\xff\xd8"):
        return Picture(data, JPEG)
    raise ValueError("These bytes are neither a JPEG nor a PNG.")


def _png_of(array: Any) -> bytes:
    shape = tuple(array.shape)
    if str(array.dtype) != "uint8" or not (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)):
        raise ValueError(f"An array must be H×W×3 or H×W of uint8, and this one is {shape} of {array.dtype}.")
    height, width = shape[:2]
    pixels = memoryview(array.tobytes())
    row = width * (3 if len(shape) == 3 else 1)
    lines = b"".join(b"\0" + pixels[start : start + row] for start in range(0, row * height, row))
    color = RGB if len(shape) == 3 else GREY
    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 1)), (b"IEND", b""))
    return PNG_SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
