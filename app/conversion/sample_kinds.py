"""Which files are reference samples, by their endings. Apart from what reads them, which loads numpy and Pillow."""

from __future__ import annotations

import re

KINDS = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".gif", ".tif", ".tiff"), "image"),
    **dict.fromkeys((".avif", ".heic", ".heif"), "image"),
    ".npy": "npy",
    ".npz": "npz",
}
"""File ending → kind of sample."""

LABELS = ("labels.csv", "labels.json")
"""What says what the pictures show; lies among them."""


def flatten_path(name: str) -> str:
    """A file's path as one name: folders joined by "__", anything unusual replaced by "_"."""
    return re.sub(r"[^\w.-]", "_", "__".join(part for part in name.split("/") if part))
