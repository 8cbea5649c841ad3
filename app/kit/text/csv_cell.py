"""Values as a CSV file holds them that people open in a spreadsheet."""

from __future__ import annotations

from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a text that begins so for a formula."""


def csv_cell(value: Any) -> Any:
    """Empty for None, and an apostrophe before a text that a spreadsheet would take for a formula."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
