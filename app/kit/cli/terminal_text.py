"""Text for terminals. Names, logs and files come from others: a control character in them could set a terminal's title
or clipboard, have it answer as if somebody typed, or reverse what is read."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

PASSED = re.compile(r"(\x1b\[(?:[\d;]{0,32}m|\?25[hl]|2K|\d?A))")
"""Colors, and the cursor moves of our own progress bars."""
KEPT = "\t\n\r"
SIGNS = {
    **{code: 0x2400 + code for code in range(32) if chr(code) not in KEPT},  # the Unicode sign of each, such as ␛
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
}
"""Control characters, and those that change the direction of text."""


def visible(text: str) -> str:
    """Replaces control characters by signs; colors and line breaks stay."""
    parts = PASSED.split(text)
    return "".join(part if place % 2 else part.translate(SIGNS) for place, part in enumerate(parts))


class VisibleStream:
    """A text stream whose control characters are visible; for the rest, the stream itself. Bytes pass unchanged."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(visible(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_log(log: bytes) -> None:
    """Prints a log or a part of one, byte for byte unless a person reads it on a terminal."""
    if sys.stdout.isatty():
        sys.stdout.write(log.decode(errors="replace"))
    else:
        sys.stdout.buffer.write(log)
    sys.stdout.flush()


@contextmanager
def visible_output() -> Iterator[None]:
    """Everything that is printed meanwhile is `visible`."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, VisibleStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
