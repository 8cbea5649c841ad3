"""Names of files as text: how any name is shown and given back, and which may be made. Pure; no disk, no users.

A file name is bytes; inside the product it is a str as os.fsdecode makes it. As text every byte of a character that
is not UTF-8, cannot be seen, turns the direction of writing or passes for one of `/ . \\` is written `\\xHH`, and so
is the backslash. Thus each name has one text, each text one name, and two names never look alike by such tricks.
"""

from __future__ import annotations

import os
import re
import unicodedata

from app.homes.errors import make_refusal

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4000
"""Slightly less than Linux allows, which counts the path above the home, too."""
LOOK_ALIKES = frozenset(
    "\u2041\u2044\u2215\u2571\u27cb\u29f8\u2cc6\u3033\U0001d23a\u0701\u0702\ua60e\ua4f8\u2216\u29f5\u29f9"
)
"""Characters that look like / . or \\ and that compatibility normalization leaves unchanged."""
_SEPARATORS = "/.\\"
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})")


def is_tricky(character: str) -> bool:
    """Whether the character is deceptive. Fullwidth forms of harmless characters are not tricks but Chinese names."""
    if character.isascii():
        return character == "\\" or not character.isprintable()
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return True
    folded = unicodedata.normalize("NFKC", character)
    return any(c in _SEPARATORS or c in LOOK_ALIKES for c in folded)


def to_text(name: str) -> str:
    return "".join(_escape(c) if is_tricky(c) else c for c in name)


def path_to_text(names: list[str]) -> str:
    return "/".join(map(to_text, names))


def from_text(text: str, *, field: str = "path") -> list[str]:
    """The names that a path inside a home runs through; [] for the home itself. One leading slash is allowed.

    Raises:
        PathRefused: No listing ever showed it: it has `..`, `//` or a character that misleads, or is too long.
    """
    if not _is_short(text, MAX_PATH_BYTES):
        raise make_refusal(field, f"it is longer than {MAX_PATH_BYTES} bytes")
    inner = text.removeprefix("/")
    return [_check_segment(segment, field) for segment in inner.split("/")] if inner else []


def check_new_name(name: str, *, field: str = "path") -> str:
    """Returns the name if users may give it to a file or folder."""
    if any(map(is_tricky, name)):
        raise make_refusal(
            field, f"the name {to_text(name)} has characters that cannot be seen or that pass for / or ."
        )
    if name != name.strip():
        raise make_refusal(field, "a name must not begin or end with a space")
    return name


def _check_segment(text: str, field: str) -> str:
    plain = _ESCAPE.sub("", text)
    match = next((c for c in plain if is_tricky(c)), None)
    if match is not None:
        raise make_refusal(field, f"it has the character {describe(match)}", hint="Write it as the listing shows it.")
    # Piece by piece, as an escaped byte may belong to a character whose other bytes are escaped too.
    raw = b"".join(
        bytes.fromhex(piece) if is_byte else os.fsencode(piece)
        for is_byte, piece in ((i % 2, p) for i, p in enumerate(_ESCAPE.split(text)))
    )
    check_segment(raw, field)
    return os.fsdecode(raw)


def check_segment(raw: bytes, field: str) -> None:
    """Checks one name of a path.

    Raises:
        PathRefused: It is empty, . or .., has a slash or NUL, or is too long.
    """
    if not raw:
        raise make_refusal(field, "it has an empty part: // or a slash at the end")
    if raw in (b".", b".."):
        raise make_refusal(field, f"it has a part {raw.decode()}")
    if b"/" in raw or b"\0" in raw:
        raise make_refusal(field, "a name in it has a slash or a NUL byte")
    if len(raw) > MAX_NAME_BYTES:
        raise make_refusal(field, f"a name in it is longer than {MAX_NAME_BYTES} bytes")


def describe(character: str) -> str:
    """U+202E RIGHT-TO-LEFT OVERRIDE: how an error describes a character that should not be printed."""
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


def _escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def _is_short(text: str, limit: int) -> bool:
    return len(text) <= limit and len(text.encode("utf-8", "surrogatepass")) <= limit
