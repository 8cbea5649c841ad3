"""Files that are written whole: a reader sees the old one or the new one."""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE, SHARED = 0o600, 0o666
"""Who may read it: its owner alone, or whom the umask lets."""


def write_whole(path: Path, text: str, *, mode: int = PRIVATE) -> None:
    """Write a small file, which has this mode from its first moment on. Its folder is made where it is missing.

    Args:
        path: of the file; for one writer at a time.
        text: in UTF-8.
        mode: PRIVATE or SHARED.

    Raises:
        OSError: it is as it was before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
