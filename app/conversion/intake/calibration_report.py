"""The data of the calibration checks: what was measured of the reference samples, and what is said of them.

Plain values, so that who judges needs no library. Texts of findings are gettext keys; their numbers lie beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class PictureStats:
    """mean, deviation: of the gray levels, 0..255. dhash: 64 bits of left-to-right gradients. format: Pillow's name."""

    name: str
    size_bytes: int
    sha256: str
    dhash: int
    width: int
    height: int
    mean: float
    deviation: float
    is_gray: bool
    format: str
    channel_means: tuple[float, ...] = ()
    """Red, green, blue, 0..255; empty for a picture without colour."""


@dataclass(frozen=True)
class ArrayStats:
    """One array of one sample. sha256: of its bytes."""

    name: str
    input: str
    sha256: str
    low: float
    high: float
    mean: float
    deviation: float


@dataclass(frozen=True)
class UnreadableSample:
    name: str
    reason: str


@dataclass(frozen=True)
class SampleStats:
    """count: of all samples; those looked at are a part of it when there are very many."""

    count: int
    pictures: Sequence[PictureStats] = ()
    arrays: Sequence[ArrayStats] = ()
    unreadable: Sequence[UnreadableSample] = ()
    kinds: dict[str, int] = field(default_factory=dict)
    ignored: Sequence[str] = ()


Severity = Literal["blocks", "warns", "informs"]
BLOCKS: Severity = "blocks"
WARNS: Severity = "warns"
INFORMS: Severity = "informs"

MANUAL = "Kneron toolchain manual v0.33.1"
FIELD = "field practice"
MODEL = "the model's first layers"


@dataclass(frozen=True)
class Finding:
    """message, advice: keys with %(name)s for the entries of detail. samples: names of those concerned."""

    code: str
    severity: Severity
    message: str
    advice: str
    source: str
    samples: tuple[str, ...] = ()
    detail: dict[str, Any] = field(default_factory=dict)
