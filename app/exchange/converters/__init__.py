"""Converts other model formats to ONNX, one module per format. All of it runs in the sandbox, because the file is
untrusted."""

from __future__ import annotations

import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

from app.conversion.intake.entry_points import ConvertRequest, ConvertResult

EXPORTED_PROGRAM, TFLITE = "exported_program", "tflite"
TFLITE_MARK, MARK_AT = b"TFL3", slice(4, 8)
PROGRAM_MEMBERS = frozenset({"archive_format", "serialized_exported_program.json"})
"""Every .pt2 file contains one of these, whichever version of PyTorch has written it."""


def convert(request: ConvertRequest, progress: Any) -> ConvertResult:
    """Convert a model of a known format to ONNX, recognized by its content and not by its name.

    Raises:
        ModelmillError: What the module of the format raises.
    """
    form = _form_of(Path(request["model"]))
    if form:
        import_module(f"{__name__}.{form}").convert(request, progress)
    return {"is_converted": bool(form)}


def _form_of(path: Path) -> str:
    with path.open("rb") as file:
        if file.read(MARK_AT.stop)[MARK_AT] == TFLITE_MARK:
            return TFLITE
    if not zipfile.is_zipfile(path):
        return ""
    with zipfile.ZipFile(path) as archive:
        members = {name.rpartition("/")[2] for name in archive.namelist()}
    return EXPORTED_PROGRAM if members & PROGRAM_MEMBERS else ""


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's text, at most 300 characters; if it has none, the name of its class."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
