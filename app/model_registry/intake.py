"""The sandbox entry points that check an uploaded ONNX, and write a decoder into one. Hostile files can harm only a
child."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.conversion.errors import DynamicShape
from app.conversion.intake.entry_points import CheckModelRequest, DecoderRequest
from app.conversion.intake.model_checks import check_model
from app.conversion.options import Options
from app.conversion.toolchains import graph
from app.conversion.toolchains.facts import GraphFacts
from app.model_registry.own_decoder import store_decoder


def check_brought(request: CheckModelRequest, progress: Callable[[float, str], None]) -> GraphFacts:
    """Whatever a conversion asks of a model, but for fixed shapes, which running it does not need.

    Raises:
        BadInput: What check_model raises.
    """
    path = Path(request["model"])
    progress(0.0, "checking the model")
    try:
        return check_model(path, Options(), max_bytes=request["max_bytes"], as_it_is=True).facts
    except DynamicShape:
        return graph.facts(graph.load(path))


def set_decoder(request: DecoderRequest, progress: Callable[[float, str], None]) -> GraphFacts:
    """Writes a decoder into the file of a model. The text is parsed, but not run.

    Raises:
        BadInput, BadRequest: What store_decoder and check_brought raise.
    """
    store_decoder(Path(request["model"]), Path(request["decoder"]).read_text(encoding="utf-8"))
    return check_brought(request, progress)
