"""The interface of a runtime, as used by a predictor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from app.inference.predictor_options import ExecutionProvider
from app.inference.preprocessing import Shape, shape_text

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Tensor:
    """An input or output of a model."""

    name: str
    shape: Shape
    dtype: str = "float32"
    """A numpy name."""

    @property
    def description(self) -> str:
        return f"{self.name} {shape_text(self.shape)}"


class Runtime(Protocol):
    """An opened model with one input. Threads may share it."""

    @property
    def description(self) -> str:
        """What really runs, for readers."""

    @property
    def why(self) -> str:
        """Why it is not what was named; empty if it is."""

    @property
    def provider(self) -> ExecutionProvider:
        """Of onnxruntime; CPU for other runtimes."""

    @property
    def input(self) -> Tensor: ...

    @property
    def outputs(self) -> tuple[Tensor, ...]: ...

    @property
    def preprocess(self) -> Mapping[str, Any]:
        """The preprocessing stored in the file itself; empty for most."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of classes stored in the file itself; empty for most."""

    @property
    def decoder_source(self) -> str:
        """The Python text of a decoder stored in the file itself; empty for most."""

    def run(self, array: Array) -> dict[str, Array]:
        """Returns outputs by name.

        Raises:
            InferenceFailed: The model cannot be run.
        """

    def close(self) -> None:
        """Releases the device or the memory; nothing runs afterwards."""
