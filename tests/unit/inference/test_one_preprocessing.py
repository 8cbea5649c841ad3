"""What was calibrated is what runs: a picture becomes the same bytes in the converter and on a node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app.conversion.toolchains.samples import PictureReader
from app.inference.picture_codec import EXIF_ORIENTATION, decode
from app.inference.preprocess_options import Preprocess, read_preprocess
from app.inference.preprocessing import Preprocessor, input_layout
from tests.harness.pictures import pixels, png, spec
from tests.harness.variants import exhaustive

HEIGHT, WIDTH = 13, 22
NORMALIZATIONS: dict[str, dict[str, Any]] = {
    "0..1": {},
    "raw": {"scale": 1},
    "one mean": {"scale": 1, "mean": [127], "std": [128]},
    "each channel": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
}
COLORS = ["auto", "RGB", "BGR", "GRAY"]


def both(path: Path, shape: tuple[int, ...], dtype: str, options: Preprocess) -> tuple[np.ndarray, np.ndarray]:
    """As the converter calibrates with it, and as a node runs it."""
    calibrated = PictureReader(spec(*shape, dtype=dtype), options).read(path)
    chosen = read_preprocess(json.loads(json.dumps(options.to_json())))
    run, _ = Preprocessor(input_layout(shape, (0, 0)), dtype, chosen).prepare(decode(path.read_bytes()))
    return calibrated, run


def plain(path: Path, shape: tuple[int, ...], order: str, dtype: str, options: Preprocess) -> np.ndarray:
    """The same by the formula, pixel by pixel, without any table."""
    channels, width, height = (shape[order.index(axis)] for axis in "CWH")
    image = Image.open(path).convert("L" if channels == 1 else "RGB")
    if options.resize == "letterbox":
        ratio = min(width / image.width, height / image.height)
        inner = round(image.width * ratio), round(image.height * ratio)
        canvas = Image.new(image.mode, (width, height), (options.pad_value,) * channels)
        canvas.paste(
            image.resize(inner, Image.Resampling.BILINEAR), ((width - inner[0]) // 2, (height - inner[1]) // 2)
        )
        image = canvas
    values = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR)).reshape(height, width, channels)
    values = values[:, :, ::-1] if options.color == "BGR" else values
    inputs = (values * options.scale - np.array(options.mean)) / np.array(options.std)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        inputs = np.rint(np.clip(inputs, limits.min, limits.max))
    inputs = inputs if order == "NHWC" else inputs.transpose(2, 0, 1)
    return np.repeat(inputs.astype(dtype)[np.newaxis], shape[0], axis=0)


@pytest.mark.parametrize("size", [(13, 22), (40, 64), *exhaustive(((8, 8),), ((31, 17),))])
@pytest.mark.parametrize("resize", ["stretch", "letterbox"])
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("color", COLORS)
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_both_give_the_bytes_of_the_formula(
    normalization: str, color: Any, order: str, resize: Any, size: tuple[int, int], tmp_path: Path
) -> None:
    channels = 1 if color == "GRAY" else 3
    chosen = {**NORMALIZATIONS[normalization], "color": color, "resize": resize, "pad_value": 41}
    if channels == 1:
        chosen |= {field: chosen[field][:1] for field in ("mean", "std") if field in chosen}
    options = read_preprocess(chosen)
    shape = (1, channels, *size) if order == "NCHW" else (1, *size, channels)
    path = png(tmp_path / "a.png", pixels(HEIGHT, WIDTH))

    calibrated, run = both(path, shape, "float32", options)

    expected = plain(path, shape, order, "float32", options)
    assert calibrated.shape == run.shape == shape and calibrated.dtype == run.dtype == expected.dtype
    assert calibrated.tobytes() == run.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float64", "uint8", "int8", "int16"])
@pytest.mark.parametrize("batch", [1, 3])
def test_of_every_type_and_batch(dtype: str, batch: int, tmp_path: Path) -> None:
    options = Preprocess(scale=1, mean=(128,), resize="letterbox")
    path = png(tmp_path / "a.png", pixels(HEIGHT, WIDTH))
    calibrated, run = both(path, (batch, 16, 16, 3), dtype, options)
    expected = plain(path, (batch, 16, 16, 3), "NHWC", dtype, options)
    assert calibrated.tobytes() == run.tobytes() == expected.tobytes()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("orientation", [1, 6])
def test_of_every_kind_of_pixels_that_a_node_takes(mode: str, channels: int, orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[EXIF_ORIENTATION] = orientation
    if mode == "I;16":
        image = Image.fromarray(pixels(HEIGHT, WIDTH, 1).astype(np.uint16) * 257)
    else:
        image = Image.fromarray(pixels(HEIGHT, WIDTH)).convert(mode)
    image.save(tmp_path / "a.png", exif=exif)
    calibrated, run = both(tmp_path / "a.png", (1, channels, 9, 9), "float32", Preprocess())
    assert calibrated.tobytes() == run.tobytes()


@pytest.mark.parametrize("quality", [30, 95])
def test_of_a_jpeg(quality: int, tmp_path: Path) -> None:
    Image.fromarray(pixels(64, 96)).save(tmp_path / "a.jpg", quality=quality)
    calibrated, run = both(tmp_path / "a.jpg", (1, 3, 32, 32), "float32", Preprocess(resize="letterbox"))
    assert calibrated.tobytes() == run.tobytes()
