"""A stream of JPEGs, cut anywhere, and what is none."""

from __future__ import annotations

import pytest

from app.kit.web.mjpeg import CONTENT_TYPE, FIRST, MAX_PART_BYTES, BadParts, PartReader, part_of

PICTURES = [b"\xff\xd8 one", b"", b"\xff\xd8--frame\r\n\r\n two", b"\r\n three \r\n"]
STREAM = FIRST + b"".join(map(part_of, PICTURES))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
def test_pictures_come_out_as_they_went_in_however_the_stream_is_cut(size: int) -> None:
    reader = PartReader.of(CONTENT_TYPE)
    pictures = [one for at in range(0, len(STREAM), size) for one in reader.feed(STREAM[at : at + size])]
    assert pictures == PICTURES


def test_the_boundary_is_the_streams_own() -> None:
    reader = PartReader.of('multipart/x-mixed-replace; boundary="--other"; charset=x')
    assert reader.feed(b"--other\r\nX: 1\r\ncontent-length: 2\r\n\r\nab\r\n--other\r\n") == [b"ab"]


@pytest.mark.parametrize("content_type", ["", "image/jpeg", "multipart/x-mixed-replace", "text/html; boundary=frame"])
def test_what_is_no_stream_of_pictures_is_not_read(content_type: str) -> None:
    with pytest.raises(BadParts):
        PartReader.of(content_type)


@pytest.mark.parametrize(
    "sent",
    [
        b"<html>\r\n\r\n",
        b"--frame\r\nContent-Type: image/jpeg\r\n\r\n",
        b"--else\r\nContent-Length: 1\r\n\r\na",
        b"--frame\r\nContent-Length: %d\r\n\r\n" % (MAX_PART_BYTES + 1),
        b"--frame\r\n" + b"x" * 5000,
    ],
)
def test_a_part_that_is_none_ends_it(sent: bytes) -> None:
    with pytest.raises(BadParts):
        PartReader.of(CONTENT_TYPE).feed(sent)
