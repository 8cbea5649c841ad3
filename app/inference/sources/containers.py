"""The declared duration of a video file. FFmpeg reads a truncated file up to the break, as if it ended there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

EBML, SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
LEAST_BYTES = 16


def read_declared_bytes(path: Path) -> int:
    """Returns the bytes of the file according to its own headers, for MP4 and related formats, Matroska and AVI; 0 if
    unknown."""
    with suppress(OSError, ValueError), path.open("rb") as file:
        head = file.read(LEAST_BYTES)
        reader = _READERS.get(head[:4]) or (_find_last_box if head[4:8] in BOXES else None)
        file.seek(0)
        return reader(file) if reader else 0
    return 0


def is_empty(path: Path) -> bool:
    """Returns whether the file has no bytes; False for a file that cannot be examined."""
    with suppress(OSError, ValueError):
        return path.stat().st_size == 0
    return False


def is_cut(path: Path) -> bool:
    """Returns whether the file ends before its headers say; False if they do not say, or it cannot be read."""
    with suppress(OSError, ValueError):
        return path.stat().st_size < read_declared_bytes(path)
    return False


BOXES = frozenset({b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"styp"})
"""Types of the first box in MP4 and QuickTime files."""


def _find_last_box(file: BinaryIO) -> int:
    """Returns the end of the last box. One with size 0 extends to the end of the file; anything after the last is
    ignored."""
    end = 0
    while True:
        file.seek(end)
        head = file.read(LEAST_BYTES)
        if len(head) < 8 or not head[4:8].isalnum():
            return end
        size = int.from_bytes(head[:4])
        size = int.from_bytes(head[8:16]) if size == 1 else size
        if size < 8:
            return end
        end += size


def _find_riff_end(file: BinaryIO) -> int:
    """Returns the end of the chunk. A file may have several; the first is the one with the index."""
    return 8 + int.from_bytes(file.read(8)[4:], "little")


def _find_matroska_end(file: BinaryIO) -> int:
    """Returns the end of the segment; a recording in progress does not have it."""
    end = 0
    for name in (EBML, SEGMENT):
        file.seek(end)
        head = file.read(12)
        if not head.startswith(name) or len(head) < 5 or not head[4]:
            return 0
        length = 9 - head[4].bit_length()
        size = int.from_bytes(head[4 : 4 + length]) & ((1 << 7 * length) - 1)
        if size == (1 << 7 * length) - 1:
            return 0
        end += 4 + length + size
    return end


_READERS: Mapping[bytes, Callable[[BinaryIO], int]] = {EBML: _find_matroska_end, b"RIFF": _find_riff_end}
