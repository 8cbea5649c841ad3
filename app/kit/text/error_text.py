"""The message of a foreign exception, for readers who are not programmers."""

from __future__ import annotations

OUT_OF_MEMORY = "it needs more memory than it may use"
NO_REASON = "no reason was given"


def reason_of(error: BaseException, limit: int = 200) -> str:
    """Returns the first line of its text, or our own words if it has none. Never the name of a class."""
    lines = str(error).strip().splitlines()
    if lines and lines[0].strip():
        return lines[0].strip()[:limit]
    return OUT_OF_MEMORY if isinstance(error, MemoryError) else NO_REASON
