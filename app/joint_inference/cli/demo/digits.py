"""Pictures of digits, drawn with Pillow's own font: shifted, turned, slanted, faint and noisy. The same seed draws the
same pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

SIDE = 16
"""Of a picture, in pixels."""
CANVAS = 64
CLASSES = 10


@dataclass(frozen=True)
class Digits:
    """pictures: [N, SIDE, SIDE] in grey; truth: [N], 0..9."""

    pictures: npt.NDArray[np.uint8]
    truth: npt.NDArray[np.int64]


def draw_digits(count: int, *, seed: int) -> Digits:
    random = np.random.default_rng(seed)
    truth = random.integers(0, CLASSES, count)
    pictures = np.stack([_drawn(random, str(digit)) for digit in truth])
    return Digits(pictures, truth)


def _drawn(random: np.random.Generator, digit: str) -> npt.NDArray[np.uint8]:
    canvas = Image.new("L", (CANVAS, CANVAS), 0)
    x, y = CANVAS / 2 + random.normal(0, 2.2, 2)
    font = ImageFont.load_default(int(random.integers(44, 54)))
    stroke = int(random.integers(0, 3))
    ImageDraw.Draw(canvas).text((x, y), digit, fill=255, font=font, anchor="mm", stroke_width=stroke)
    canvas = canvas.rotate(random.normal(0, 9), resample=Image.Resampling.BILINEAR)
    slant = random.normal(0, 0.1)
    slanted = (1, slant, -slant * CANVAS / 2, 0, 1, 0)
    canvas = canvas.transform(canvas.size, Image.Transform.AFFINE, slanted, resample=Image.Resampling.BILINEAR)
    small = np.asarray(canvas.resize((SIDE, SIDE), Image.Resampling.BOX), np.float64)
    faint = small * random.uniform(0.5, 1.0) + random.uniform(0, 40)
    noisy = faint + random.normal(0, random.uniform(0, 35), small.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)
