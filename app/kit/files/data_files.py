"""Where files that are no Python lie: beside `app` in a checkout, inside of it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[2]


def data_folder(name: str) -> Path:
    """Folder `name` ("templates", "static", "ops/samples/digits"), wherever this installation has it."""
    packaged = PACKAGE / name
    return packaged if packaged.is_dir() else PACKAGE.parent / name
