"""The properties of a model input that samples depend on."""

from __future__ import annotations

from typing import Protocol

from app.conversion.errors import DynamicShape


class InputSpec(Protocol):
    """A graph input; graph.TensorSpec is one. dtype is a numpy name."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int | str | None, ...]: ...
    @property
    def dtype(self) -> str: ...


def static_shape(spec: InputSpec) -> tuple[int, ...]:
    """Returns the shape, including the batch.

    Raises:
        DynamicShape: An axis is no number.
    """
    shape = tuple(axis for axis in spec.shape if isinstance(axis, int))
    if len(shape) != len(spec.shape):
        raise DynamicShape(
            f"input {spec.name!r} has the shape {list(spec.shape)}, so samples cannot be fitted to it",
            hint=f'Give its shape as numbers in input_shapes, for example {{"{spec.name}": [1, 3, 224, 224]}}.',
        )
    return shape
