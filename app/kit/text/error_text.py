"""What somebody else's exception says, for a reader who is no programmer."""

from __future__ import annotations

OUT_OF_MEMORY = "it needs more memory than it may use"
NO_REASON = "no reason was given"


def reason_of(error: BaseException, limit: int = 200) -> str:
    """The first line of its text; words of ours for one that says nothing. Never the name of a class."""
    lines = str(error).strip().splitlines()
    if lines and lines[0].strip():
        return lines[0].strip()[:limit]
    return OUT_OF_MEMORY if isinstance(error, MemoryError) else NO_REASON
