"""Names of classes that exporters store in an ONNX file: Ultralytics' as `names`, those of PaddleOCR as `character`."""

from __future__ import annotations

import ast
from collections.abc import Mapping

MOST_LENGTH = 1 << 20
"""Characters of a value that is read."""
MOST_CLASSES = 100_000
SPACE = " "


def read_stored_labels(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the names by index; empty if there are none, or if they cannot be read.

    Args:
        metadata: of the file, which may be hostile.
    """
    characters = metadata.get("character", "")
    if characters and len(characters) <= MOST_LENGTH:
        return (*characters.splitlines(), SPACE)
    return _read_names(metadata.get("names", ""))


def _read_names(text: str) -> tuple[str, ...]:
    """Reads a dict {0: "person", …} or a list of names, as Python prints it."""
    if not text or len(text) > MOST_LENGTH:
        return ()
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RuntimeError):  # of text that is too deep, too
        return ()
    names = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list | tuple) else {}
    is_whole = set(names) == set(range(len(names))) and len(names) <= MOST_CLASSES
    return tuple(str(names[number]) for number in range(len(names))) if is_whole else ()
