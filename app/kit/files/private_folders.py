"""Folders of our own: whatever lies in them, other users of the machine cannot reach it."""

from __future__ import annotations

from pathlib import Path


def make_private(folder: Path) -> Path:
    """Make the folder and what is missing above it, open to the owner alone (mkdir's own mode is the last one's only).

    What is there already stays as its owner made it. Safe to be done by several processes at once.
    """
    for missing in [path for path in (*reversed(folder.parents), folder) if not path.exists()]:
        missing.mkdir(mode=0o700, exist_ok=True)
    return folder
