"""How a decoded frame is to be turned and mirrored until it stands as its maker held it: phones store what the sensor
sees, and write beside it how that is shown. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.inference.prediction import Picture

MATRIX = "DISPLAYMATRIX"


def upright(pixels: Picture, frame: Any) -> Picture:
    """The pixels of this frame of PyAV as players show them; what is turned by less than a right angle stays so."""
    given = frame.side_data.get(MATRIX)
    if given is None:
        return pixels
    across_x, across_y, _, down_x, down_y = np.frombuffer(given, np.int32)[:5].tolist()
    if abs(across_y) + abs(down_x) > abs(across_x) + abs(down_y):
        pixels, across_x, down_y = pixels.transpose(1, 0, 2), down_x, across_y
    if across_x < 0:
        pixels = pixels[:, ::-1]
    if down_y < 0:
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)
