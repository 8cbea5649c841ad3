"""Kinds of stages and generators: their inputs and outputs. A DAG is checked against them on submission."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from app.inference.model_card import ModelCard
from app.inference.prediction import Decoder
from app.kit.text.json_form import JsonDocument, JsonForm
from app.kit.text.json_values import JsonObject


class Type(StrEnum):
    """The type of a field that passes from one stage to the next."""

    IMAGE = "image"
    """A picture: JPEG or PNG as base64 in JSON, or as a part of a multipart body."""
    CLIP = "clip"
    """A list of pictures, oldest first."""
    BOXES = "boxes"
    """[[x1, y1, x2, y2], …] in pixels of the stage's input image."""
    SCORES = "scores"
    """[p, …] in 0..1, one for each box or class."""
    LABELS = "labels"
    """[name, …], one for each box."""
    KEYPOINTS = "keypoints"
    """[[[x, y, score], …], …] in pixels of the stage's input image, one list for each box."""
    MASKS = "masks"
    """[[[x, y, x, y, …], …], …] in pixels of the stage's input image, polygons for each box."""
    POSES = "poses"
    """[[yaw, pitch, roll], …] in degrees, one for each box."""
    COUNTS = "counts"
    """{name: number}, to be shown."""


class Metric(StrEnum):
    """How the answer of a plan is compared with that of the reference configuration."""

    IOU = "iou"
    """Of its boxes: F1 at an overlap of 0.5, 0..1, where a box with a mask or key points counts as much as they
    are alike; greater is better."""
    MAE = "mae"
    """Of its poses: mean absolute error in degrees; smaller is better."""
    NONE = ""


@dataclass(frozen=True)
class StageKind:
    """A program that a stage can run."""

    name: str
    inputs: Mapping[str, Type]
    outputs: Mapping[str, Type]
    optional: frozenset[str] = frozenset()
    """Optional inputs."""
    model_dependent: frozenset[str] = frozenset()
    """Outputs that only some models have; without them, the others are complete."""
    metric: Metric = Metric.NONE
    compared: str = ""
    """The output that the metric uses."""
    models: int = 1
    """Number of ONNX models of a variant."""
    more_models: int = 0
    """Maximum number of additional ones."""
    tracks: str = ""
    """The output of boxes that a tracker can carry from frame to frame; empty: none."""
    boxes_are: str = ""
    """The class of each of its boxes, for a kind whose outputs have no labels; empty: unknown."""
    draws: bool = False
    """Its output `image` is its input `image` with its outputs drawn on it; anybody who has the picture can draw it,
    too."""
    parameters: frozenset[str] = frozenset()
    """Names of the parameters of a stage of this kind."""
    decoders: frozenset[Decoder] = frozenset()
    """The product's decoders that its parameter `decoder` may name; empty: all."""

    def takes(self, models: int) -> bool:
        """Whether a variant can have this number of models."""
        return self.models <= models <= self.models + self.more_models


@dataclass(frozen=True)
class GeneratorKind:
    name: str
    outputs: Mapping[str, Type]


SINGLE_FRAME = GeneratorKind("SingleFrameGenerator", {"image": Type.IMAGE})
CLIP = GeneratorKind("ClipGenerator", {"clip": Type.CLIP, "image": Type.IMAGE})
"""image: the first of the clip."""
GENERATORS: Mapping[str, GeneratorKind] = {kind.name: kind for kind in (SINGLE_FRAME, CLIP)}
RENDER = "Render"
RENDERED: Mapping[str, Type] = {"image": Type.IMAGE, "count": Type.COUNTS}
"""The inputs of Render. Both are required."""


@dataclass(frozen=True)
class StageSpec:
    """A stage as declared by its user."""

    name: str
    kind: str
    models: tuple[tuple[str, ...], ...]
    """Names of models by model_id: 0 big, 1 middle, 2 small, or fewer. Each entry names as many as the kind needs."""
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_names(self) -> set[str]:
        return {name for names in self.models for name in names}


STAGE_SPEC = JsonForm(StageSpec)


@dataclass(frozen=True)
class Stage(JsonDocument):
    """A StageSpec whose models are pinned: what a node needs to run it."""

    name: str
    kind: str
    variants: tuple[tuple[ModelCard, ...], ...]
    """By model_id."""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def has_model(self, files: Collection[str], prefix: str = "") -> bool:
        """Whether a variant of it runs a model with one of these SHA-256 values, and a name that begins so."""
        cards = (card for variant in self.variants for card in variant)
        return any(card.sha256 in files and card.name.startswith(prefix) for card in cards)


def stages_to_json(stages: Sequence[Stage]) -> list[JsonObject]:
    return [stage.to_json() for stage in stages]
