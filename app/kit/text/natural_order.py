"""Sorting of names that may be numbers."""

from __future__ import annotations

MOST_DIGITS = 18


def by_number(name: str) -> tuple[bool, int, str]:
    """Key for sorting: 0, 1, 2, 10, and then names that are not numbers."""
    is_number = name.isascii() and name.isdecimal() and len(name) <= MOST_DIGITS
    return not is_number, int(name) if is_number else 0, name
