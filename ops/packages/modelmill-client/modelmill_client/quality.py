"""How well a quantized model keeps to the original. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RULE_DB = 20.0
"""The vendor's rule, which holds unless a job names another."""


@dataclass(frozen=True)
class Quality:
    worst: float | None
    """Signal to noise of the worst output, dB; None while it is not measured."""
    cosine: float | None
    """Least cosine of an output with the original's."""
    passed: bool | None
    """Does it keep the rule of its toolchain? None where that was not measured."""
    samples: int
    """On how many samples it was measured."""
    rule: float = RULE_DB
    """What the verdict requires of every output, dB."""

    def __bool__(self) -> bool:
        return self.worst is not None

    def reaches(self, decibels: float) -> bool:
        """Is the worst output at least this good?"""
        return self.worst is not None and self.worst >= decibels


def quality_of(record: Mapping[str, Any]) -> Quality:
    """Of a job's record."""
    summary = ((record.get("stages") or {}).get("bie") or {}).get("summary") or {}
    return Quality(
        summary.get("snr_db"),
        summary.get("cosine"),
        summary.get("passed"),
        int(summary.get("samples") or 0),
        float(summary.get("rule_db", RULE_DB)),
    )
