"""Small pictures of files in data homes, made in the sandbox whenever they are asked for; browsers keep them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from app.conversion.service import Conversion
from app.homes.errors import NotAFile
from app.homes.model import Kind
from app.homes.read_only_tree import ReadOnlyTree
from app.kit.errors import TooLarge
from app.kit.sandbox.runner import Limits

MAKE = "app.conversion.intake.picture:make_picture"
MAX_BYTES = 64 << 20
MEMORY_BYTES = 2 << 30
TIME_S = 20.0
MEDIA_TYPE = "image/jpeg"


def small_picture(conversion: Conversion, shelf: ReadOnlyTree, inner: str) -> bytes:
    """A JPEG. Raises FileMissing, NotAFile, TooLarge, BadInput for what is no picture."""
    found = shelf.info(inner)
    if found.kind is not Kind.FILE:
        raise NotAFile(f"{inner} is no file.", hint="Name a picture.")
    if found.size_bytes > MAX_BYTES:
        raise TooLarge(f"Pictures above {MAX_BYTES >> 20} MiB are not shown.", hint="Download it to look at it.")
    settings = conversion.submissions.settings
    settings.work.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.mkdtemp(prefix="picture-", dir=settings.work))
    try:
        with (folder / "picture").open("wb") as file:
            file.writelines(shelf.read(inner))
        request = {"picture": str(folder / "picture"), "into": str(folder / "small.jpg")}
        limits = Limits(min(MEMORY_BYTES, settings.stage_memory_bytes), min(settings.intake_time_s, TIME_S), 1)
        conversion.submissions.sandbox.run(MAKE, request, work_dir=folder, limits=limits)
        return (folder / "small.jpg").read_bytes()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
