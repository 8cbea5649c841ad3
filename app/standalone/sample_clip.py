"""A rendered sample clip: four heads that turn and nod, and optionally somebody who walks past. It needs nobody's
permission, unlike people's faces."""

from __future__ import annotations

import math
from pathlib import Path

import av
import numpy as np
from PIL import Image, ImageDraw

WIDTH, HEIGHT, FPS, FRAMES = 480, 270, 12, 120
HEADS = ((75, 95, 30), (190, 110, 26), (300, 90, 28), (405, 115, 32))
"""Where each is in the middle of its way, and its radius."""
WALKER_Y, WALKER_RADIUS, WALKER_YAW_DEG, WALKER_SHIRT = 222, 32, -60.0, (150, 110, 60)
SKIN, NOSE, EYES = (255, 200, 140), (20, 20, 220), (70, 50, 40)
WALL, FLOOR, SHIRTS = (200, 214, 210), (120, 130, 125), ((60, 90, 120), (110, 70, 90), (70, 110, 80), (90, 90, 60))
TURN_DEG, NOD_DEG = 45.0, 35.0
REACH = 0.6
"""Of the radius: so far from the middle is the nose of a head that is turned by a right angle."""


def draw_clip(path: Path, *, has_walker: bool = False) -> None:
    """Ten seconds, which may be repeated.

    Args:
        has_walker: A fifth head crosses the picture from left to right, below the others.
    """
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=FPS)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = WIDTH, HEIGHT, "yuv420p", 1_200_000
        for number in range(FRAMES):
            frame = av.VideoFrame.from_ndarray(
                np.asarray(_draw_picture(number / FRAMES, has_walker=has_walker)), "rgb24"
            )
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def poses(share: float) -> list[tuple[float, float]]:
    """Yaw (to the reader's left) and pitch (up) of each head in degrees, after that share of the clip."""
    return [
        (
            TURN_DEG * math.sin(2 * math.pi * (share * (1 + number % 2) + number / 4)),
            NOD_DEG * math.sin(2 * math.pi * (share * (2 - number % 2) + number / 3)),
        )
        for number in range(len(HEADS))
    ]


def _draw_picture(share: float, *, has_walker: bool) -> Image.Image:
    image = Image.new("RGB", (WIDTH, HEIGHT), WALL)
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, HEIGHT * 2 // 3, WIDTH, HEIGHT), FLOOR)
    for number, ((x, y, radius), (yaw, pitch)) in enumerate(zip(HEADS, poses(share), strict=True)):
        sway = 8 * math.sin(2 * math.pi * (share + number / 4))
        _draw_head(pen, x + sway, y, radius, yaw, pitch, SHIRTS[number])
    if has_walker:
        walker_x = share * (WIDTH + 2 * WALKER_RADIUS) - WALKER_RADIUS
        _draw_head(pen, walker_x, WALKER_Y, WALKER_RADIUS, WALKER_YAW_DEG, 0.0, WALKER_SHIRT)
    return image


def _draw_head(
    pen: ImageDraw.ImageDraw, x: float, y: float, radius: int, yaw: float, pitch: float, shirt: tuple[int, int, int]
) -> None:
    pen.rounded_rectangle((x - 1.4 * radius, y + 1.1 * radius, x + 1.4 * radius, HEIGHT), radius, shirt)
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), SKIN)
    nose = x - REACH * radius * math.sin(math.radians(yaw)), y - REACH * radius * math.sin(math.radians(pitch))
    for side in (-1, 1):
        _draw_dot(pen, nose[0] + side * 0.3 * radius, nose[1] - 0.3 * radius, 0.08 * radius, EYES)
    _draw_dot(pen, *nose, 0.16 * radius, NOSE)


def _draw_dot(pen: ImageDraw.ImageDraw, x: float, y: float, radius: float, colour: tuple[int, int, int]) -> None:
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), colour)
