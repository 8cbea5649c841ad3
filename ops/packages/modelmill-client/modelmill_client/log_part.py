"""A piece of a stage's log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LogPart:
    text: bytes
    next_offset: int
    """Where the next piece begins, in bytes."""
    is_complete: bool
    """Nothing will follow."""
