"""How a model is opened for predictions, and what computes it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.inference.prediction import Decoder


class ExecutionProvider(StrEnum):
    """What onnxruntime computes a model with. AUTO: the first usable one of the machine, the CPU as the last."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    TENSORRT = "tensorrt"
    OPENVINO = "openvino"
    COREML = "coreml"
    QNN = "qnn"

    @property
    def display_name(self) -> str:
        return display_name_of(self.value)


DISPLAY_NAMES = {"tensorrt": "TensorRT", "openvino": "OpenVINO", "coreml": "Core ML"}


def display_name_of(provider: str) -> str:
    """Returns the name of a provider as its makers write it."""
    return DISPLAY_NAMES.get(provider, provider.upper())


@dataclass(frozen=True)
class BatchOptions:
    """How pictures that wait at the same time are computed together."""

    most: int = 1
    """Pictures in one call; 1: each alone."""
    wait_s: float = 0.005
    """How long one may wait for others."""
    calls: int = 1
    """Calls at the same time."""


@dataclass(frozen=True)
class PredictorOptions:
    """How a model is opened, and which of its boxes are results."""

    score_threshold: float = 0.6
    """Boxes below it are not results."""
    candidate_threshold: float = 0.2
    """Boxes below it are ignored even for hard samples."""
    nms_threshold: float = 0.3
    """If two boxes of a class overlap more than this (IoU), the weaker one is dropped."""
    threads: int = 1
    provider: ExecutionProvider = ExecutionProvider.AUTO
    """For models that onnxruntime runs, except those in int8 of the host toolchain, which are made for the CPU."""
    batching: BatchOptions = BatchOptions()
    """For a model whose batch dimension is free, and that answers alike; any other computes each picture alone."""
    decoder: Decoder = Decoder.AUTO
    """Overrides the card's."""
    preprocess: Mapping[str, Any] = field(default_factory=dict)
    """Overrides the card's, field by field."""
    input_size: tuple[int, int] = (0, 0)
    """Width and height for a model with open sides; zeros for the usual size of its decoder's family."""
    classes: tuple[str, ...] = ()
    """Names of the classes that count, for a detector: boxes of other classes are not candidates, either; empty for
    all."""
