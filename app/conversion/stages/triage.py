"""Where a toolchain dies: the smallest part of the model, with random weights, over which it still dies.

A toolchain that crashes says nothing of why. Its model is cut shorter from the end and then from the front, by halves,
each part tried as the stage itself would run it, in the sandbox. What is left can be given to the toolchain's makers:
nothing of the user's weights or pictures is in it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.kit.errors import ModelmillError
from app.kit.sandbox.errors import StageCrashed

TRIAGE_S = 180.0
"""All tries together."""
MODEL_BYTES_MOST = 256 << 20
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """The nodes [first, end) of a model, as a model of their own."""

    model: Path
    samples: Path
    nodes: tuple[Mapping[str, str], ...]
    """Each {"name", "op_type"}."""
    total: int
    """Nodes of the whole model."""

    def to_json(self) -> dict[str, Any]:
        """What the error of the job says of it."""
        return {"nodes": len(self.nodes), "of": self.total, "operators": [node["op_type"] for node in self.nodes][:20]}


Cut = Callable[[int, int | None], Part]
"""The part [first, end) of the model, end None: to its end; raises ModelmillError where it cannot stand alone."""
Dies = Callable[[Part], bool]
"""Does the toolchain die over it?"""


def is_crash(error: BaseException) -> bool:
    """Did a program die, rather than say what is wrong?"""
    detail = error.detail if isinstance(error, ModelmillError) else {}
    returncode = detail.get("returncode")
    return isinstance(error, StageCrashed) or (isinstance(returncode, int) and returncode < 0)


def smallest_failing(cut: Cut, dies: Dies, *, budget_s: float = TRIAGE_S) -> Part | None:
    """The smallest part within the time.

    Returns:
        None where not even the whole model dies with random weights and made-up samples: then the cause lies in them.
    """
    deadline = time.monotonic() + budget_s
    whole = cut(0, None)
    if not dies(whole):
        return None
    first, end, best = 0, whole.total, whole

    def try_part(one: int, other: int) -> Part | None:
        try:
            part = cut(one, other)
        except ModelmillError:
            return None
        return part if dies(part) else None

    low = 0
    while end - low > 1 and time.monotonic() < deadline:
        middle = (low + end) // 2
        part = try_part(0, middle)
        if part is None:
            low = middle
        else:
            end, best = middle, part
    high = end
    while high - first > 1 and time.monotonic() < deadline:
        middle = (first + high) // 2
        part = try_part(middle, end)
        if part is None:
            high = middle
        else:
            first, best = middle, part
    return best
