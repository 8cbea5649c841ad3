"""How a picture becomes a model input, as nodes read it: `preprocess_options` without pydantic, which would be a third
of what the start of each of their processes costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from app.kit.text.json_form import FormError, JsonForm

CHANNELS = 4
"""The most that mean and std have values for."""


@dataclass(frozen=True)
class Preparation:
    """x = (pixel * scale - mean) / std, per channel. The fields are those of `preprocess_options.Preprocess`.

    Raises FormError for a value out of its range.
    """

    color: Literal["RGB", "BGR", "GRAY", "auto"] = "auto"
    resize: Literal["stretch", "letterbox"] = "stretch"
    pad_value: int = 114
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
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


_FORM = JsonForm(Preparation)
_NAMES = frozenset(field.name for field in fields(Preparation))


def read_preparation(data: Mapping[str, Any], base: Preparation | None = None) -> Preparation:
    """What was chosen, as JSON.

    Args:
        data: By the names of the fields.
        base: Whose values are taken where the data says nothing; None: the defaults.

    Raises:
        FormError: A name that is no field, or a value of another form or out of its range.
    """
    unknown = next((name for name in data if name not in _NAMES), None)
    if unknown is not None:
        raise FormError((unknown,), "there is no such field")
    return _FORM.read({**_FORM.write(base), **data} if base is not None else data)


def is_default(data: Mapping[str, Any]) -> bool:
    """Is it what a conversion has to which no preprocessing was named?"""
    return dict(data) == _FORM.write(Preparation())
