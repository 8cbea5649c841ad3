"""The sandbox entry point that checks an uploaded ONNX. Hostile files can harm only a child."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.conversion.errors import DynamicShape
from app.conversion.intake.entry_points import CheckModelRequest
from app.conversion.intake.model_checks import check_model
from app.conversion.options import Options
from app.conversion.toolchains import graph
from app.conversion.toolchains.facts import GraphFacts


def check_brought(request: CheckModelRequest, progress: Callable[[float, str], None]) -> GraphFacts:
    """Whatever a conversion asks of a model, but for fixed shapes, which running it does not need.

    Raises:
        BadInput: What check_model raises.
    """
    path = Path(request["model"])
    progress(0.0, "checking the model")
    try:
        return check_model(path, Options(), max_bytes=request["max_bytes"]).facts
    except DynamicShape:
        return graph.facts(graph.load(path))
