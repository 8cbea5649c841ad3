"""Messages of the converters."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's text, at most 300 characters; if it has none, the name of its class."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
