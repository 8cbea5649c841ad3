"""What the sandbox is given to create the contents of a pack."""

from __future__ import annotations

from typing import Any

from app.conversion.intake.entry_points import PackedSamples


class PackRequest(PackedSamples):
    folder: str
    """Where the contents are created."""
    nef: str
    onnx: str
    """The float model."""
    options: dict[str, Any]
    """Options as JSON."""
