"""Which files are reference samples, by their endings. Apart from what reads them, which loads numpy and Pillow."""

from __future__ import annotations

KINDS = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".gif", ".tif", ".tiff"), "image"),
    **dict.fromkeys((".avif", ".heic", ".heif"), "image"),
    ".npy": "npy",
    ".npz": "npz",
}
"""File ending → kind of sample."""
