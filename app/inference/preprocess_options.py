"""The options for turning a picture into a model input. `app.inference.preprocessing` has the arithmetic.

A dataclass, which nodes read without pydantic: that would be a third of the start-up cost of each of their processes.
As a field of a pydantic model, it is validated and described through its annotations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt, Interval, Len

from app.kit.text.json_form import FormError, JsonDocument

Color = Literal["RGB", "BGR", "GRAY", "auto"]
CHANNELS = 4
"""Largest number of values of mean and std."""


@dataclass(frozen=True)
class Preprocess(JsonDocument):
    """How a picture becomes a model input: x = (pixel * scale - mean) / std, per channel, float32.

    The defaults give RGB in 0..1. (x-127)/128 is scale=1, mean=[127], std=[128].
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "allow_inf_nan": False,
        "use_attribute_docstrings": True,
    }

    color: Color = "auto"
    """Channel order. auto: RGB for three channels, GRAY for one."""
    resize: Literal["stretch", "letterbox"] = "stretch"
    pad_value: Annotated[int, Interval(ge=0, le=255)] = 114
    """Pixel value of the letterbox bars."""
    scale: float = 1 / 255
    mean: Annotated[tuple[float, ...], Len(1, CHANNELS)] = (0.0,)
    """One value for all channels or one per channel, in the order of `color`."""
    std: Annotated[tuple[Annotated[float, Gt(0)], ...], Len(1, CHANNELS)] = (1.0,)

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            FormError: A value is out of its range.
        """
        if not 0 <= self.pad_value <= 255:
            raise FormError(("pad_value",), "a pixel is 0 to 255")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if not 1 <= len(values) <= CHANNELS:
                raise FormError((name,), f"1 to {CHANNELS} values are possible")
        for name, numbers in (("scale", (self.scale,)), ("mean", self.mean), ("std", self.std)):
            if not all(map(math.isfinite, numbers)):
                raise FormError((name,), "a finite number is expected")
        if min(self.std) <= 0:
            raise FormError(("std",), "what is divided by is above 0")


_NAMES = frozenset(field.name for field in fields(Preprocess))


def read_preprocess(data: Mapping[str, Any], base: Preprocess | None = None) -> Preprocess:
    """Reads the chosen options from JSON.

    Args:
        data: by the names of the fields.
        base: values for missing fields; None for the defaults.

    Raises:
        FormError: A name is not a field, or a value has another type or is out of its range.
    """
    unknown = next((name for name in data if name not in _NAMES), None)
    if unknown is not None:
        raise FormError((unknown,), "there is no such field")
    return Preprocess.from_json({**base.to_json(), **data} if base is not None else data)


def is_default(data: Mapping[str, Any]) -> bool:
    """Returns whether a conversion without a chosen preprocessing has these values."""
    return dict(data) == Preprocess().to_json()
