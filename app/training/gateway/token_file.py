"""The token of a cluster in a file."""

from __future__ import annotations

from pathlib import Path

from app.training.errors import RayUnreachable


def read_token(path: Path) -> str:
    """Reads the token for Ray.

    Raises:
        RayUnreachable: It cannot be read; with the reason.
    """
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise RayUnreachable(f"Ray's token cannot be read from {path.name}: {reason}.") from None
