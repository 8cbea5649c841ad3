"""What a node is told of a model, and how a model and its version are named there. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.inference.prediction import Decoder
from app.kit.text.json_form import JsonForm
from app.kit.text.json_values import JsonObject


class Format(StrEnum):
    """Format of a model's file: ONNX, or what the toolchains make of it (BIE: quantized; NEF: compiled)."""

    ONNX = "onnx"
    BIE = "bie"
    NEF = "nef"


@dataclass(frozen=True)
class ModelCard:
    """What a node has to know about a model to run it. Sent in messages; the file is fetched by its sha256."""

    name: str
    format: Format
    sha256: str
    size_bytes: int
    toolchain: str = ""
    """The toolchain that made it, host or kneron; empty for an uploaded ONNX."""
    twin_sha256: str = ""
    """sha256 of the ONNX from which a BIE or NEF was made, for nodes that cannot run the model itself."""
    twin_size_bytes: int = 0
    preprocess: Mapping[str, Any] = field(default_factory=dict)
    """app.inference.preprocess_options.Preprocess as JSON; empty: the default of its decoder's family."""
    decoder: Decoder = Decoder.AUTO
    labels: tuple[str, ...] = ()
    """Names of the classes, by index; may be empty."""


MODEL_CARD = JsonForm(ModelCard)
VERSIONED = re.compile(r"(.+)@([1-9][0-9]{0,8})")
MOST_CHARACTERS = 500
"""Of the names of the models that answer together."""
JOIN = " + "
"""Between the names of several models that answer together."""


def version_on(card: str) -> tuple[str, int]:
    """Returns the plain name and the version from the name on a card: faces@3; the first version has none."""
    match = VERSIONED.fullmatch(card)
    return (match[1], int(match[2])) if match else (card, 1)


def model_facts(card: object) -> JsonObject:
    """Returns model_name and model_version, as a row names the model that has answered.

    Args:
        card: the name on its card, as another program tells it; of several models their names with JOIN between, which
            have no version in common; empty, or no name: unknown.
    """
    if not isinstance(card, str) or not card.isprintable() or not 0 < len(card) <= MOST_CHARACTERS:
        return {}
    if JOIN in card:
        return {"model_name": card}
    name, version = version_on(card)
    return {"model_name": name, "model_version": version}
