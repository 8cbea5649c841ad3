"""Parameters of stages: texts, as entered by users."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from app.inference.installed_decoders import list_installed_decoders
from app.inference.prediction import Decoder
from app.inference.predictor_options import BatchOptions, ExecutionProvider, PredictorOptions
from app.inference.region import Region, read_region
from app.video.errors import BadStage

Choice = TypeVar("Choice", bound=StrEnum)
TIMEOUT = "timeout_s"
"""For every kind: seconds that one frame may take before its process is ended."""
DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S = 10.0, 600.0
PROVIDER = "provider"
"""An execution provider of onnxruntime; the node's unless given."""
BATCH, BATCH_WAIT = "batch", "batch_wait_ms"
"""How many pictures of all jobs are computed in one call, at most, and how long one may wait for others."""
MOST_BATCH, DEFAULT_BATCH_WAIT_MS = 64, 5.0
OF_MODELS = frozenset({"decoder", PROVIDER, BATCH, BATCH_WAIT, TIMEOUT})
PREDICTOR = OF_MODELS | {"score_threshold", "nms_threshold", "region"}


def number(parameters: Mapping[str, str], name: str, default: float, least: float, most: float) -> float:
    """A stage's parameter as a number.

    Args:
        default: used if the parameter is missing or empty.
        least: included.
        most: included.

    Raises:
        BadStage: It is not a number in this range.
    """
    text = parameters.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise BadStage(f"The parameter {name} is a number from {least:g} to {most:g}, not {text[:80]!r}.")
    return value


def words(parameters: Mapping[str, str], name: str) -> frozenset[str]:
    """Returns the items of a list with commas; empty if not given."""
    return frozenset(word.strip().lower() for word in parameters.get(name, "").split(",") if word.strip())


def predictor_options(parameters: Mapping[str, str], score: float) -> PredictorOptions:
    """How a stage's model is run.

    Args:
        parameters: of the stage.
        score: default threshold, 0..1.

    Raises:
        BadStage: A parameter is not valid.
    """
    threshold = number(parameters, "score_threshold", score, 0, 1)
    decoder = _read_choice(parameters, "decoder", Decoder.AUTO, list_installed_decoders())
    provider = _read_choice(parameters, PROVIDER, ExecutionProvider.AUTO, tuple(ExecutionProvider))
    return PredictorOptions(
        score_threshold=threshold,
        candidate_threshold=threshold,
        decoder=decoder,
        provider=provider,
        batching=batching_of(parameters),
        nms_threshold=number(parameters, "nms_threshold", 0.3, 0, 1),
    )


def _read_choice(parameters: Mapping[str, str], name: str, default: Choice, choices: Sequence[Choice]) -> Choice:
    text = parameters.get(name, "").strip().lower() or default.value
    chosen = next((choice for choice in choices if choice == text), None)
    if chosen is None:
        raise BadStage(f"There is no {name} {text[:80]!r}.", hint=f"Known are {', '.join(choices)}.")
    return chosen


def region_of(parameters: Mapping[str, str]) -> Region | None:
    """Returns the part of each picture that is used; None for all of it.

    Raises:
        BadStage: It is not a region.
    """
    text = parameters.get("region", "")
    try:
        return read_region(text) if text.strip() else None
    except ValueError as error:
        raise BadStage(f"The parameter region is {error}, not {text[:80]!r}.") from None


def batching_of(parameters: Mapping[str, str]) -> BatchOptions:
    """Returns how pictures are batched.

    Raises:
        BadStage: A parameter is not a number.
    """
    most = number(parameters, BATCH, 1, 1, MOST_BATCH)
    wait_ms = number(parameters, BATCH_WAIT, DEFAULT_BATCH_WAIT_MS, 0, 1000)
    return BatchOptions(int(most), wait_ms / 1000)


def timeout_of(parameters: Mapping[str, str]) -> float:
    """Returns seconds.

    Raises:
        BadStage: It is not a number.
    """
    return number(parameters, TIMEOUT, DEFAULT_TIMEOUT_S, 0.05, MAX_TIMEOUT_S)
