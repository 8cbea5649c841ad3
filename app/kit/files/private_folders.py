"""Private folders: other users of the machine cannot access their content."""

from __future__ import annotations

from pathlib import Path


def make_private(folder: Path) -> Path:
    """Creates the folder and its missing parents, accessible only to the owner (mkdir's own mode applies only to the
    last).

    Existing folders keep their mode. Several processes may do this at once.
    """
    for missing in [path for path in (*reversed(folder.parents), folder) if not path.exists()]:
        missing.mkdir(mode=0o700, exist_ok=True)
    return folder
