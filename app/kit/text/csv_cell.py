"""Values for CSV files that people open in a spreadsheet."""

from __future__ import annotations

from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet treats a text that starts with one of these as a formula."""


def csv_cell(value: Any) -> Any:
    """Empty for None; adds an apostrophe before a text that a spreadsheet would treat as a formula."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
