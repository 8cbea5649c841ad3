"""What a program has in hand arrives at the worker pixel for pixel."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from modelmill_edge import Picture
from modelmill_edge.picture import JPEG, PNG, encode
from PIL import Image

from app.inference.picture_codec import decode

PIXELS = np.random.default_rng(7).integers(0, 256, (5, 7, 3), np.uint8)


@pytest.mark.parametrize("pixels", [PIXELS, PIXELS[:, :, 0], PIXELS[::2, ::-1]], ids=["rgb", "grey", "strided"])
def test_an_array_arrives_as_it_is(pixels: Any) -> None:
    encoded = encode(pixels)
    assert encoded.content_type == PNG
    assert np.array_equal(decode(encoded.data), pixels)


def test_an_image_of_pillow_arrives_as_rgb() -> None:
    image = Image.fromarray(PIXELS).convert("RGBA")
    assert np.array_equal(decode(encode(image).data), PIXELS)


def test_a_file_is_sent_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    Image.fromarray(PIXELS).save(path)
    assert encode(path) == encode(str(path)) == Picture(path.read_bytes(), JPEG)


@pytest.mark.parametrize(
    "wrong",
    [PIXELS.astype(np.float32), PIXELS[None], PIXELS[:, :, :2], b"GIF89a"],
    ids=["float", "batch", "two", "gif"],
)
def test_what_no_worker_reads_is_refused_before_it_is_sent(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"uint8|JPEG"):
        encode(wrong)
    with pytest.raises(TypeError, match="no picture"):
        encode(3)


def test_a_received_picture_is_turned_as_its_exif_says() -> None:
    buffer, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(PIXELS).save(buffer, "PNG", exif=exif)
    assert Picture(buffer.getvalue(), PNG).array().shape == (7, 5, 3)
