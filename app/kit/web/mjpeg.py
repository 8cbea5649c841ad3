"""A stream of JPEGs that browsers show in an <img>: multipart/x-mixed-replace, written and read. Pure."""

from __future__ import annotations

import re

BOUNDARY = "frame"
MIXED = "multipart/x-mixed-replace"
CONTENT_TYPE = f"{MIXED}; boundary={BOUNDARY}"
MAX_HEAD_BYTES = 4096
MAX_PART_BYTES = 8 << 20
_BOUNDARY = re.compile(r'boundary="?([!-~]{1,70}?)"?\s*(?:;|$)', re.IGNORECASE)
_LENGTH = re.compile(rb"(?:^|\r\n)content-length:[ \t]*([0-9]{1,9})[ \t]*(?:\r\n|$)", re.IGNORECASE)


class BadParts(ValueError):
    """The input is not such a stream."""


def part_of(picture: bytes) -> bytes:
    """Ends with the start of the next boundary, so that a browser shows this picture at once."""
    head = f"Content-Type: image/jpeg\r\nContent-Length: {len(picture)}\r\n\r\n"
    return head.encode() + picture + f"\r\n--{BOUNDARY}\r\n".encode()


FIRST = f"--{BOUNDARY}\r\n".encode()
"""Comes before the first part."""


class PartReader:
    """Parses the stream as it arrives, and returns complete pictures."""

    def __init__(self, boundary: str) -> None:
        self._boundary = b"--" + boundary.removeprefix("--").encode()
        self._kept = bytearray()
        self._length: int | None = None

    @staticmethod
    def of(content_type: str) -> PartReader:
        """Returns a reader for a body of this type.

        Raises:
            BadParts: It is no multipart stream with a boundary.
        """
        match = _BOUNDARY.search(content_type)
        if not content_type.lower().startswith(MIXED) or match is None:
            raise BadParts(f"{content_type[:100]!r} is no stream of pictures")
        return PartReader(match[1])

    def feed(self, chunk: bytes) -> list[bytes]:
        """Returns the pictures that this chunk completes, oldest first.

        Raises:
            BadParts: The stream is malformed, or a part is too large.
        """
        self._kept += chunk
        pictures = []
        while self._has_head() and self._length is not None and len(self._kept) >= self._length:
            pictures.append(bytes(self._kept[: self._length]))
            del self._kept[: self._length]
            self._length = None
        return pictures

    def _has_head(self) -> bool:
        """The part being read, without its boundary and headers."""
        if self._length is not None:
            return True
        while self._kept[:2] == b"\r\n":
            del self._kept[:2]
        end = self._kept.find(b"\r\n\r\n")
        if end < 0:
            if len(self._kept) > MAX_HEAD_BYTES:
                raise BadParts("a part whose headers do not end")
            return False
        head = bytes(self._kept[:end])
        length = _LENGTH.search(head)
        if not head.startswith(self._boundary) or length is None or int(length[1]) > MAX_PART_BYTES:
            raise BadParts(f"a part that begins with {head[:100]!r}")
        self._length = int(length[1])
        del self._kept[: end + 4]
        return True
