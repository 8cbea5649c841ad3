"""The result of a search: the chosen model, and its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.quantization_plan import QuantizationPlan
from app.conversion.toolchains.host.search.basis import Basis
from app.kit.text.json_values import JsonObject


@dataclass(frozen=True)
class SearchResult:
    """The chosen model and the parts of its report."""

    model: Any
    """The quantized model (onnx.ModelProto)."""
    basis: Basis
    """The basis from which it was built."""
    plan: QuantizationPlan
    ranges: dict[str, Range]
    method: str
    """Method of most ranges."""
    pictures: int
    """Number of pictures that set the ranges."""
    warnings: list[str]
    goal: JsonObject | None
    """None if no goal was named."""
    search: JsonObject
    judgement: JsonObject
    unseen: tuple[int, ...]
    """Indexes of the samples for the report, if they set no range of the delivered file."""
