"""Values as plain text: JSON, cells of CSV files, durations, messages of foreign exceptions; and the order of names
that may be numbers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any


def json_text(data: Any) -> str:
    """Returns data as JSON.

    Raises:
        ValueError: It has an infinite number or NaN.
    """
    return json.dumps(data, allow_nan=False)


FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet treats a text that starts with one of these as a formula."""


def csv_cell(value: Any) -> Any:
    """Empty for None; adds an apostrophe before a text that a spreadsheet would treat as a formula."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def csv_text(rows: Iterable[Iterable[Any]], *, line_end: str = "\r\n") -> str:
    """Returns rows of cells as CSV (RFC 4180); see csv_cell."""
    file = io.StringIO()
    csv.writer(file, lineterminator=line_end).writerows(map(csv_cell, row) for row in rows)
    return file.getvalue()


def short_duration(seconds: float) -> str:
    """ "9.3 s", "42 s", "14 min", "2 h 5 min"."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


OUT_OF_MEMORY = "it needs more memory than it may use"
NO_REASON = "no reason was given"


def reason_of(error: BaseException, limit: int = 200) -> str:
    """Returns the first line of its text, or our own words if it has none. Never the name of a class."""
    lines = str(error).strip().splitlines()
    if lines and lines[0].strip():
        return lines[0].strip()[:limit]
    return OUT_OF_MEMORY if isinstance(error, MemoryError) else NO_REASON


def printable(text: str) -> str:
    """Returns the text with a space for each character that cannot be printed, such as a line end, an escape or NUL."""
    return "".join(character if character.isprintable() else " " for character in text)


def names_text(names: Sequence[str], most: int) -> str:
    """Returns the first names with commas between, and an ellipsis if there are more."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


MOST_DIGITS = 18


def by_number(name: str) -> tuple[bool, int, str]:
    """Key for sorting: 0, 1, 2, 10, and then names that are not numbers."""
    is_number = name.isascii() and name.isdecimal() and len(name) <= MOST_DIGITS
    return not is_number, int(name) if is_number else 0, name
