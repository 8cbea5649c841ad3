"""The result of a search: the chosen model, and its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.conversion.toolchains.host.calibration import Range
from app.conversion.toolchains.host.quantization_plan import QuantizationPlan
from app.kit.text.json_values import JsonObject


@dataclass(frozen=True)
class SearchResult:
    """The chosen model and the parts of its report."""

    model: Any
    """The quantized model (onnx.ModelProto)."""
    float_model: Any
    """The float model from which it was built (onnx.ModelProto), with the rewrites of the choice."""
    not_finite: Mapping[str, str]
    """The names of tensors that held a NaN or an infinity, with the sample of the first one."""
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
