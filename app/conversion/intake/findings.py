"""What the calibration doctor says. Texts are gettext keys; their numbers lie beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

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
