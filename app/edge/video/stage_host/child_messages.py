"""The headers of messages between a stage host and its children. Pictures follow a header as raw bytes; see
`app.kit.process.child_protocol`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from app.kit.text.json_values import JsonObject


class ModelOnDisk(TypedDict):
    card: JsonObject
    """A ModelCard as JSON."""
    path: str
    twin: str
    """Path of its twin; empty: it has none."""


class StageContent(TypedDict):
    """What a child needs to open a stage."""

    kind: str
    parameters: dict[str, str]
    models: list[ModelOnDisk]


class OpenRequest(StageContent):
    """Opens a variant of a stage; with `open_ahead` in the background, for a later `open`."""

    do: Literal["open", "open_ahead"]
    stage: str
    """Key of the stage, for the log."""
    variant: str
    """Id of the variant, by which later requests refer to what was opened."""


class CloseRequest(TypedDict):
    do: Literal["close"]
    variants: list[str]


class FieldPictures(TypedDict):
    """The pictures of one field of a call."""

    field: str
    is_clip: bool
    """The field is a list of pictures."""
    shapes: list[list[int]]
    """Height, width and channels of each, whose bytes follow in this order."""


class CallRequest(TypedDict):
    """One call of a stage. The bytes of its pictures follow the header."""

    fields: JsonObject
    """What is no picture, by name."""
    pictures: list[FieldPictures]
    draw: bool
    """Whether the outputs are to be drawn into the picture, too."""


class RunRequest(TypedDict):
    """Computes calls of one variant together."""

    do: Literal["run"]
    stage: str
    variant: str
    calls: list[CallRequest]


ChildRequest = OpenRequest | CloseRequest | RunRequest


class CallAnswer(TypedDict):
    """An error, or outputs."""

    error: NotRequired[JsonObject]
    """A ModelmillError as JSON, with its status."""
    outputs: NotRequired[JsonObject]
    is_drawn: NotRequired[bool]
    """Whether one of the JPEGs behind the header belongs to this call."""


class RunAnswer(TypedDict):
    answers: list[CallAnswer]
    """By call, in their order."""
    ms: float
    """How long it computed."""


AnswerHeader = Mapping[str, Any]
"""A RunAnswer; of `open` {runtime}, of `open_ahead` {is_ready}, of `close` nothing; in place of each {error}."""
