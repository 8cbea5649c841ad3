"""A duration in short form, for logs and terminals; pages use the reader's language."""

from __future__ import annotations


def short_duration(seconds: float) -> str:
    """ "9.3 s", "42 s", "14 min", "2 h 5 min"."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
