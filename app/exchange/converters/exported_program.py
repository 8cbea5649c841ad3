"""PyTorch's exported programs (.pt2) to ONNX, with torch.onnx. Runs in the sandbox, because the file is untrusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from app.conversion.intake.entry_points import ConvertRequest
from app.exchange.converters import first_line
from app.exchange.errors import BadSource
from app.kit.errors import ExtraMissing
from app.kit.text.json_values import JsonObject


def convert(request: ConvertRequest, _progress: Any) -> JsonObject:
    """Convert an exported program to ONNX with its weights inside.

    Raises:
        BadSource: It is not one, or has an operator that ONNX lacks.
        ExtraMissing: PyTorch is not installed here.
    """
    hint = "Save it with torch.export.save, by a PyTorch not newer than the one here."
    if not is_zipfile(request["model"]):  # known without PyTorch, which takes seconds to load
        raise BadSource("This is no exported program that can be read: it is no zip.", hint=hint)
    try:
        import torch
    except ImportError as error:
        raise ExtraMissing("PyTorch is not installed here.", hint="pip install 'modelmill[pytorch]'") from error
    try:
        program = torch.export.load(request["model"])
    except Exception as error:  # torch raises anything
        raise BadSource(f"This is no exported program that can be read: {first_line(error)}", hint=hint) from error
    try:
        converted = torch.onnx.export(program, dynamo=True)
        assert converted is not None
        converted.save(request["into"], external_data=False)
    except Exception as error:  # torch raises anything
        raise BadSource(
            f"torch.onnx cannot convert this program: {first_line(error)}",
            hint="Export it to ONNX where it was made, and convert that.",
        ) from error
    return {"onnx_bytes": Path(request["into"]).stat().st_size, "torch": str(torch.__version__)}
