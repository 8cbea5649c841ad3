"""A picture as the model's input, by preprocess.json: Pillow's bilinear filter in NumPy, to one level of 255."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

OPTIONS: dict[str, Any] = json.loads(Path(__file__).with_name("preprocess.json").read_text())


def prepare(rgb: Any, options: dict[str, Any] = OPTIONS) -> Any:
    """rgb: H×W×3 in 0..255, uint8. Returns the input, batch included."""
    pixels = rgb.astype(np.int64)
    if options["color"] == "GRAY":
        pixels = (pixels @ np.array([19595, 38470, 7471]) + 0x8000 >> 16)[..., None]
    elif options["color"] == "BGR":
        pixels = pixels[..., ::-1]
    height, width = pixels.shape[:2]
    wide, high = inner = options["width"], options["height"]
    if options["resize"] == "letterbox":
        ratio = min(wide / width, high / height)
        inner = max(1, round(width * ratio)), max(1, round(height * ratio))
    pixels = resized(resized(pixels, inner[0], axis=1), inner[1], axis=0)
    canvas = np.full((high, wide, pixels.shape[2]), options["pad_value"])
    left, top = (wide - inner[0]) // 2, (high - inner[1]) // 2
    canvas[top : top + inner[1], left : left + inner[0]] = pixels
    mean, std = np.asarray(options["mean"], np.float64), np.asarray(options["std"], np.float64)
    values = (canvas * options["scale"] - mean) / std
    kind = np.dtype(options["dtype"])
    if kind.kind in "iu":
        values = np.rint(np.clip(values, np.iinfo(kind).min, np.iinfo(kind).max))
    values = values.astype(kind)
    values = values if options["layout"] == "NHWC" else values.transpose(2, 0, 1)
    return np.repeat(values[None], options["batch"], axis=0)


def resized(pixels: Any, size: int, axis: int) -> Any:
    """Along one axis; the filter widens as the picture shrinks."""
    length = pixels.shape[axis]
    if length == size:
        return pixels
    scale = length / size
    support = max(scale, 1.0)
    lines = []
    for place in range(size):
        center = (place + 0.5) * scale
        first, last = max(0, int(center - support + 0.5)), min(length, int(center + support + 0.5))
        weights = np.maximum(0.0, 1.0 - np.abs((np.arange(first, last) - center + 0.5) / support))
        fixed = (weights / weights.sum() * (1 << 22) + 0.5).astype(np.int64)
        total = np.tensordot(fixed, pixels.take(range(first, last), axis), (0, axis)) + (1 << 21) >> 22
        lines.append(np.clip(total, 0, 255))
    return np.stack(lines, axis)
