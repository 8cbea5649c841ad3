"""Which files a set of samples consists of. Pure."""

from __future__ import annotations

from pathlib import PurePath

PICTURES = frozenset({".jpg", ".jpeg", ".png"})
LABELS = frozenset({".csv", ".json", ".txt", ".xml", ".yaml"})


def is_picture(path: PurePath) -> bool:
    return path.suffix.lower() in PICTURES


def is_member(path: PurePath) -> bool:
    """Returns whether a file of a folder belongs to its set: a picture, or labels."""
    return is_picture(path) or path.suffix.lower() in LABELS
