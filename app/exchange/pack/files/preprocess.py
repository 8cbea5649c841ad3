"""A picture as the model's input, by preprocess.json: Pillow's bilinear filter in NumPy, to one level of 255."""

import json
from pathlib import Path
from typing import Any

import numpy as np

OPTIONS = json.loads(Path(__file__).with_name("preprocess.json").read_text())


def prepare(rgb: Any, options: Any = OPTIONS) -> Any:
    """rgb: H×W×3 in 0..255, uint8. Returns the input, batch included."""
    pixels = (rgb[..., ::-1] if options["color"] == "BGR" else rgb).astype(np.int64)
    if options["color"] == "GRAY":
        pixels = (pixels @ [19595, 38470, 7471] + 0x8000 >> 16)[..., None]
    size = inner = np.array([options["height"], options["width"]])
    if options["resize"] == "letterbox":
        inner = np.maximum(1, np.rint(min(size / rgb.shape[:2]) * np.array(rgb.shape[:2]))).astype(int)
    top, left = (size - inner) // 2
    canvas = np.full((*size, pixels.shape[2]), options["pad_value"])
    canvas[top : top + inner[0], left : left + inner[1]] = resized(resized(pixels, inner[1], 1), inner[0], 0)
    values = (canvas * options["scale"] - options["mean"]) / options["std"]
    if (kind := np.dtype(options["dtype"])).kind in "iu":
        values = np.rint(np.clip(values, np.iinfo(kind).min, np.iinfo(kind).max))
    values = values.astype(kind) if options["layout"] == "NHWC" else values.astype(kind).transpose(2, 0, 1)
    return np.repeat(values[None], options["batch"], axis=0)


def resized(pixels: Any, size: int, axis: int) -> Any:
    """Along one axis; the filter widens as the picture shrinks."""
    lines, length = [], pixels.shape[axis]
    support = max(length / size, 1.0)
    for center in (np.arange(size) + 0.5) * (length / size):
        first, last = max(0, int(center - support + 0.5)), min(length, int(center + support + 0.5))
        weights = np.maximum(0.0, 1.0 - np.abs((np.arange(first, last) - center + 0.5) / support))
        fixed = (weights / weights.sum() * (1 << 22) + 0.5).astype(np.int64)
        lines.append(np.tensordot(fixed, pixels.take(range(first, last), axis), (0, axis)) + (1 << 21) >> 22)
    return np.stack(lines, axis)
