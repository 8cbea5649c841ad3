"""Messages of the converters."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """The first line of its text, at most 300 characters; where it has none, its class."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
