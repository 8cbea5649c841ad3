"""Small pictures and the inputs they fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from app.conversion.options import Preprocess
from app.conversion.toolchains.graph import TensorSpec

RGB8 = TensorSpec("x", (1, 3, 8, 8), "float32")
RAW = Preprocess(scale=1)


def spec(*shape: int | str, dtype: str = "float32", name: str = "x") -> TensorSpec:
    return TensorSpec(name, shape, dtype)


def pixels(height: int, width: int, channels: int = 3) -> np.ndarray:
    """Every pixel differs from its neighbours."""
    return (
        (np.arange(height * width * channels, dtype=np.uint32) * 7 % 256)
        .astype(np.uint8)
        .reshape((height, width, channels) if channels > 1 else (height, width))
    )


def png(path: Path, values: np.ndarray, **options: Any) -> Path:
    Image.fromarray(values).save(path, **options)
    return path
