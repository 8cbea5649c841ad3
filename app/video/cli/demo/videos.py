"""Which videos the edge node has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.edge.agent.options import video
from app.inference.sources import open_reel
from app.kit.errors import BadInput

SUFFIXES = frozenset({".avi", ".gif", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm"})


def found_videos(given: Sequence[str]) -> list[tuple[str, str]]:
    """(type, path or URL) of each, in their order; those of a folder by name. Raises BadInput, SourceUnusable where
    this machine has no PyAV to read them with."""
    found = [one for text in given for one in _videos(text)]
    for _, source in found:
        open_reel(source)
    return found


def _videos(text: str) -> list[tuple[str, str]]:
    folder = Path(text).expanduser()
    if folder.is_dir():
        found = [video(str(file)) for file in sorted(folder.iterdir()) if file.suffix.lower() in SUFFIXES]
        if not found:
            raise BadInput(f"there is no video in {folder}", hint=f"Looked for are {', '.join(sorted(SUFFIXES))}.")
        return found
    kind, source = video(text)
    if "://" not in source and not Path(source).exists():
        raise BadInput(f"there is no video {source}", hint="Give --videos a path that this machine has, or a URL.")
    return [(kind, source)]
