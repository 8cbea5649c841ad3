"""Rows of a service: what its edge worker tells of the samples that were answered. Pure; the form crosses the wire."""

from __future__ import annotations

from enum import StrEnum

MOST_ROWS = 1000
"""Of a report."""
MAX_BYTES = 1 << 20
"""Of a report."""


class RowChoice(StrEnum):
    """Which samples leave a row."""

    ALL = "all"
    OBJECTS = "objects"
    """Those in which something was detected."""
    NONE = "none"
