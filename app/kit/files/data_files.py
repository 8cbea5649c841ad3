"""Finds data files: beside `app` in a checkout, inside it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[2]


def data_folder(name: str) -> Path:
    """Returns the folder `name` ("templates", "static", "ops/samples/digits") of this installation."""
    packaged = PACKAGE / name
    return packaged if packaged.is_dir() else PACKAGE.parent / name
