"""The result of a search: the chosen model, and its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.quantizer import QuantizationPlan
from app.conversion.toolchains.host.search.basis import Basis


@dataclass(frozen=True)
class SearchResult:
    model: Any
    """The quantized model (onnx.ModelProto)."""
    basis: Basis
    """What it was made of."""
    plan: QuantizationPlan
    ranges: dict[str, Range]
    method: str
    """Of most ranges."""
    pictures: int
    """That set the ranges."""
    warnings: list[str]
    goal: dict[str, Any] | None
    """None where none was named."""
    search: dict[str, Any]
    judgement: dict[str, Any]
    unseen: tuple[int, ...]
    """Places of the samples that it is reported on where they set no range of the file that is handed out."""
