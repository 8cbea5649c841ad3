"""Sizes of pictures that are shown or encoded."""

from __future__ import annotations

import numpy as np
from PIL import Image

from app.inference.prediction import Picture

Size = tuple[int, int]
"""Width and height."""


def size_of(picture: Picture) -> Size:
    return picture.shape[1], picture.shape[0]


def even_size(source: Size, most_width: int) -> Size:
    """Returns the size with the source's aspect ratio, at most this wide, never enlarged. Both sides are even, as H264
    requires."""
    ratio = min(1.0, most_width / source[0])
    width, height = (max(2, round(side * ratio) // 2 * 2) for side in source)
    return width, height


def resize_picture(picture: Picture, size: Size) -> Picture:
    """Returns the picture at this width and height; itself, not a copy, if it has that size already."""
    if size_of(picture) == size:
        return picture
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0))
