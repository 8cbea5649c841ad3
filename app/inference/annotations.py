"""Boxes, their names, key points and masks on a picture, for pages and video."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from app.inference.prediction import Box, Picture

COLOURS = ("#e6194b", "#3cb44b", "#0082c8", "#f58231", "#911eb4", "#008080", "#d81b60", "#808000")
"""Colors of the boxes, by class; white text is legible on each."""

OPACITY = 110
"""Of masks, of 255."""


def draw(picture: Picture, boxes: Sequence[Box], labels: Sequence[str] = (), ids: Sequence[int | None] = ()) -> Picture:
    """Returns a copy in RGB with each box outlined, its id, class and score above it, its mask, and its visible key
    points; those of COCO are joined by lines. Strokes and letters grow with the picture.

    Args:
        picture: H×W×3, RGB, uint8.
        boxes: in its pixels.
        labels: names of the classes, by number.
        ids: of the objects in the boxes; may be fewer than these.
    """
    image = Image.fromarray(picture).convert("RGB")
    _fill_masks(image, boxes)
    pen = ImageDraw.Draw(image)
    stroke, font = max(1, round(min(image.size) / 200)), _load_font(max(10, round(min(image.size) / 28)))
    for box in boxes:
        colour = COLOURS[box.label % len(COLOURS)]
        pen.rectangle(_compute_corners(box), outline=colour, width=stroke)
        figure = box.figure
        for line in figure.lines:
            pen.line(line, fill=colour, width=stroke)
        for x, y in figure.points:
            pen.circle((x, y), 2 * stroke, fill="white", outline=colour, width=stroke)
    for box, track_id in zip_longest(boxes, ids[: len(boxes)]):
        text = caption(box, labels) if track_id is None else f"#{track_id} {caption(box, labels)}"
        _name(pen, _compute_corners(box), text, COLOURS[box.label % len(COLOURS)], font, image.width)
    return np.asarray(image)


def _fill_masks(image: Image.Image, boxes: Sequence[Box]) -> None:
    """Fills the masks with a translucent color of their class."""
    for box in boxes:
        if box.mask:
            area = Image.new("L", image.size)
            for polygon in box.mask:
                ImageDraw.Draw(area).polygon(polygon, fill=OPACITY)
            image.paste(COLOURS[box.label % len(COLOURS)], mask=area)


def _compute_corners(box: Box) -> tuple[float, float, float, float]:
    return min(box.x1, box.x2), min(box.y1, box.y2), max(box.x1, box.x2), max(box.y1, box.y2)


def caption(box: Box, labels: Sequence[str]) -> str:
    """Returns the object's text or the class's name, and the score; the class's number if the built-in font cannot
    write that; no name if it is empty."""
    name = labels[box.label] if 0 <= box.label < len(labels) else ("" if not labels else str(box.label))
    name = box.text or name
    if not name.isascii():
        name = str(box.label)
    return f"{name} {box.score:.2f}".strip()


def _name(
    pen: ImageDraw.ImageDraw,
    corners: tuple[float, float, float, float],
    text: str,
    colour: str,
    font: _Font,
    right: int,
) -> None:
    """Writes above the box, or inside if there is no room; never beyond the picture."""
    width, height = pen.textbbox((0, 0), text, font=font)[2:]
    x = max(0.0, min(corners[0], right - width - 4))
    y = corners[1] - height - 4 if corners[1] >= height + 4 else corners[1]
    pen.rectangle((x, y, x + width + 4, y + height + 4), fill=colour)
    pen.text((x + 2, y + 1), text, fill="white", font=font)


_Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@lru_cache(maxsize=8)
def _load_font(size: int) -> _Font:
    return ImageFont.load_default(size)
