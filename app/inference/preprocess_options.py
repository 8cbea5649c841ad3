"""What may be chosen of how a picture becomes a model input. `app.inference.preprocessing` has the arithmetic, and
`app.inference.preparation` the same choice for nodes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Finite = Annotated[float, Field(allow_inf_nan=False)]
Divisor = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Preprocess(BaseModel):
    """How a picture becomes a model input: x = (pixel * scale - mean) / std, per channel, float32.

    The defaults give RGB in 0..1. (x-127)/128 is scale=1, mean=[127], std=[128].
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    color: Literal["RGB", "BGR", "GRAY", "auto"] = "auto"
    """Channel order. auto: RGB for three channels, GRAY for one."""
    resize: Literal["stretch", "letterbox"] = "stretch"
    pad_value: int = Field(default=114, ge=0, le=255)
    """Pixel value of the letterbox bars."""
    scale: Finite = 1 / 255
    mean: tuple[Finite, ...] = Field(default=(0.0,), min_length=1, max_length=4)
    """One value for all channels or one per channel, in the order of `color`."""
    std: tuple[Divisor, ...] = Field(default=(1.0,), min_length=1, max_length=4)
