"""Pictures as bytes and back, and what is refused; boxes drawn on pictures."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from app.inference.annotations import caption, draw
from app.inference.errors import DamagedPicture
from app.inference.picture_codec import decode, encode
from app.inference.prediction import Box
from tests.harness.pictures import pixels


def test_a_small_picture_is_sent_without_loss() -> None:
    for picture in (pixels(8, 8, 1), pixels(31, 31)):
        data, kind = encode(picture)
        assert kind == "image/png"
        np.testing.assert_array_equal(decode(data), picture)


@pytest.mark.parametrize("size", [(32, 8), (8, 32), (270, 480)])
def test_a_larger_one_is_a_jpeg_and_smaller_with_less_quality(size: tuple[int, int]) -> None:
    data, kind = encode(pixels(*size))
    assert kind == "image/jpeg"
    assert decode(data).shape == (*size, 3)
    assert len(encode(pixels(*size), quality=20)[0]) < len(data)


def test_grey_stays_grey() -> None:
    assert decode(encode(pixels(64, 64, 1))[0]).shape == (64, 64)


def saved(image: Image.Image, format_: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format_, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(("mode", "shape"), [("RGBA", (9, 7, 3)), ("P", (9, 7, 3)), ("LA", (9, 7)), ("1", (9, 7))])
def test_other_kinds_of_pixels_become_grey_or_rgb(mode: str, shape: tuple[int, ...]) -> None:
    assert decode(saved(Image.new(mode, (7, 9)), "PNG")).shape == shape


def test_sixteen_bits_are_brought_to_eight_and_not_cut_off() -> None:
    deep = Image.fromarray(np.array([[0, 256, 65535]], np.uint16))
    np.testing.assert_array_equal(decode(saved(deep, "PNG")), [[0, 1, 255]])


def test_a_picture_is_turned_as_its_camera_says() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert decode(saved(Image.new("RGB", (40, 60)), "JPEG", exif=exif)).shape == (40, 60, 3)


@pytest.mark.parametrize("data", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0" + bytes(100)])
def test_bytes_that_are_no_picture_are_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(DamagedPicture, match=f"these {len(data)} bytes cannot be read as a picture: ."):
        decode(data)


@pytest.mark.parametrize("side", [20, 200])
def test_a_picture_that_is_cut_off_is_refused(side: int) -> None:
    data, _ = encode(pixels(side, side))
    with pytest.raises(DamagedPicture):
        decode(data[: len(data) * 2 // 3])


@pytest.mark.parametrize("format_", ["GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_any_other_format_is_refused(format_: str) -> None:
    with pytest.raises(DamagedPicture, match="neither JPEG nor PNG"):
        decode(saved(Image.new("RGB", (40, 40)), format_))


def png_of(width: int, height: int) -> bytes:
    """A PNG that says it is so large; its pixels are a few bytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(10))) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(("width", "height"), [(5001, 5000), (12000, 9000), (60000, 60000)])
def test_a_decompression_bomb_is_refused_before_its_pixels_are_unpacked(width: int, height: int) -> None:
    with pytest.raises(DamagedPicture, match="pixels"):
        decode(png_of(width, height))


def test_the_most_pixels_can_be_set() -> None:
    data, _ = encode(pixels(40, 50))
    with pytest.raises(DamagedPicture, match="50 x 40 pixels are more than the 1,999"):
        decode(data, max_pixels=1999)
    assert decode(data, max_pixels=2000).shape == (40, 50, 3)


def test_a_box_is_drawn_where_it_is_and_the_picture_stays_as_it_was() -> None:
    picture = np.zeros((100, 200), np.uint8)
    drawn = draw(picture, [Box(50, 40, 150, 90, 0.9)], ["face"])
    assert drawn.shape == (100, 200, 3)
    assert drawn[90, 100].any()
    assert drawn[65, 50].any()
    assert not drawn[70, 100].any()
    assert not picture.any()


def test_boxes_at_the_edge_are_drawn_too() -> None:
    boxes = [Box(0, 0, 200, 100, 1.0, 7), Box(199, 99, 200, 100, 0.5, 80), Box(3, 3, 3, 3, 0.5)]
    assert draw(np.zeros((100, 200, 3), np.uint8), boxes).any()


def test_a_caption_names_the_class_as_far_as_the_font_can_write_it() -> None:
    assert caption(Box(0, 0, 1, 1, 0.987, 1), ["a", "bus"]) == "bus 0.99"
    assert caption(Box(0, 0, 1, 1, 0.5, 1), ["a", "公車"]) == "1 0.50"
    assert caption(Box(0, 0, 1, 1, 0.5, 9), ["a"]) == "9 0.50"
    assert caption(Box(0, 0, 1, 1, 0.5), []) == "0.50"
