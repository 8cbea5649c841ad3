"""The data of the calibration checks: measurements of the reference samples, and the findings.

Plain values, so that checks need no library. Texts of findings are gettext keys with separate numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class PictureStats:
    name: str
    size_bytes: int
    sha256: str
    dhash: int
    """Difference hash: 64 bits of left-to-right gradients."""
    width: int
    height: int
    mean: float
    """Mean of the gray levels, 0..255."""
    deviation: float
    """Standard deviation of the gray levels, 0..255."""
    is_gray: bool
    format: str
    """Pillow's name of the file format."""
    channel_means: tuple[float, ...] = ()
    """Red, green, blue, 0..255; empty for a picture without color."""


@dataclass(frozen=True)
class ArrayStats:
    """One array of one sample."""

    name: str
    input: str
    sha256: str
    """Of the array's bytes."""
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
    count: int
    """Of all samples; when there are very many, only some of them were measured."""
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
    code: str
    severity: Severity
    message: str
    """A gettext key with %(name)s for the entries of detail."""
    advice: str
    """What to do about it; a key like message."""
    source: str
    samples: tuple[str, ...] = ()
    """Names of the samples concerned."""
    detail: dict[str, Any] = field(default_factory=dict)
