"""What the sandbox is given to create the contents of a pack."""

from __future__ import annotations

from app.conversion.intake.entry_points import PackedSamples
from app.kit.text.json_values import JsonObject


class PackRequest(PackedSamples):
    folder: str
    """Where the contents are created."""
    nef: str
    onnx: str
    """The float model."""
    options: JsonObject
    """Options as JSON."""
