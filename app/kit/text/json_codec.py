"""JSON between our own processes, by msgspec: Python's own takes two to three times as long for a small text."""

from __future__ import annotations

from json import JSONDecoder, JSONEncoder
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_encode_any = JSONEncoder(separators=(",", ":")).encode
_decode_any = JSONDecoder().decode


def encode(value: Any) -> bytes:
    """Returns the value as compact JSON. NaN and infinities become null.

    Raises:
        TypeError: JSON has no such value.
    """
    try:
        return _encode(value)
    except (TypeError, ValueError):  # half of a character, as names of files may have; a kind of text or number
        return _encode_any(value).encode()


def decode(text: str) -> Any:
    """Returns what the text says; NaN, infinities and halves of characters as Python's own writes them.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return _decode_any(text)
