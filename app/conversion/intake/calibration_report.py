"""The data of the calibration checks: measurements of the reference samples, and the findings.

Plain values, so that checks need no library. Texts of findings are gettext keys with separate numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.kit.text.json_values import JsonObject


@dataclass(frozen=True)
class PictureStats:
    """The measurements of one picture."""

    name: str
    size_bytes: int
    sha256: str
    dhash: int
    """Difference hash: 64 bits, one for each left-to-right gradient."""
    width: int
    height: int
    mean: float
    """Mean of the gray levels, 0..255."""
    deviation: float
    """Standard deviation of the gray levels, 0..255."""
    is_gray: bool
    format: str
    """Pillow's name of the file format."""


@dataclass(frozen=True)
class ArrayStats:
    """The measurements of one array of one sample."""

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
    """A file that cannot be read."""

    name: str
    reason: str


@dataclass(frozen=True)
class SampleStats:
    """The measurements of all samples."""

    count: int
    """Number of all samples; of very many, only some were measured."""
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
    """A result of the calibration checks."""

    code: str
    severity: Severity
    message: str
    """A gettext key with %(name)s for the entries of detail."""
    advice: str
    """What to do about it; a gettext key like message."""
    source: str
    samples: tuple[str, ...] = ()
    """Names of the affected samples."""
    detail: JsonObject = field(default_factory=dict)
