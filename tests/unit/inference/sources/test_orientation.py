"""Video that was taken with the phone held otherwise stands upright."""

from __future__ import annotations

import struct
from pathlib import Path

import av
import numpy as np
import pytest

from app.inference.prediction import Picture
from app.inference.sources import open_source
from tests.unit.inference.sources.test_sources import film

ONE, MATRIX = 1 << 16, struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
DARK, RED, GREEN, BLUE = (0, 0, 0), (250, 0, 0), (0, 250, 0), (0, 0, 250)
SENSOR = ((RED, GREEN), (BLUE, DARK))
"""Of four colours, in rows."""
SHOWN = {
    (ONE, 0, 0, ONE): SENSOR,
    (0, ONE, -ONE, 0): ((BLUE, RED), (DARK, GREEN)),
    (-ONE, 0, 0, -ONE): ((DARK, BLUE), (GREEN, RED)),
    (0, -ONE, ONE, 0): ((GREEN, DARK), (RED, BLUE)),
    (-ONE, 0, 0, ONE): ((GREEN, RED), (DARK, BLUE)),
    (ONE, 0, 0, -ONE): ((BLUE, DARK), (RED, GREEN)),
    (0, ONE, ONE, 0): ((RED, BLUE), (GREEN, DARK)),
}
"""a, b, c, d of the matrix in the track's header, as QuickTime defines it → how players show it."""


def taken(path: Path, matrix: tuple[int, int, int, int]) -> Path:
    """A film of 96 × 64 whose header says how it is turned."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=12)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        pixels = np.kron(np.array(SENSOR, np.uint8), np.ones((32, 48, 1), np.uint8))
        container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
        container.mux(stream.encode(None))
    a, b, c, d = matrix
    header, data = path.read_bytes().index(b"tkhd"), path.read_bytes()
    turned = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data[:header] + data[header:].replace(MATRIX, turned, 1))
    return path


def colours(picture: Picture) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Of the middles of its quarters, each channel all or nothing."""
    height, width = picture.shape[:2]
    return tuple(
        tuple(tuple(250 if value > 125 else 0 for value in picture[height * y // 4, width * x // 4]) for x in (1, 3))
        for y in (1, 3)
    )


@pytest.mark.parametrize(("matrix", "shown"), SHOWN.items(), ids=str)
def test_a_video_is_given_as_players_show_it(
    matrix: tuple[int, int, int, int], shown: tuple[object, ...], tmp_path: Path
) -> None:
    (frame,) = open_source(str(taken(tmp_path / "a.mp4", matrix)))
    assert frame.picture.shape == ((64, 96, 3) if matrix[0] else (96, 64, 3))
    assert colours(frame.picture) == shown
    assert frame.picture.flags["C_CONTIGUOUS"]


def test_a_video_without_a_matrix_stays_as_it_is(tmp_path: Path) -> None:
    assert next(open_source(str(film(tmp_path / "a.mkv", codec="libx264")))).picture.shape == (48, 64, 3)
