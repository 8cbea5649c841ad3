"""Room on the disk that the agent keeps for itself."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

RESERVE_BYTES = 256 << 10
"""SQLite needs a few pages of it for a deletion."""


class DiskReserve:
    """A file of random bytes, which no file system compresses. Deleting it makes room on a full disk."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def fill(self) -> None:
        """Writes the file; does nothing if there is no room."""
        if self._file.exists():
            return
        try:
            self._file.touch(mode=0o600)
            self._file.write_bytes(os.urandom(RESERVE_BYTES))
        except OSError:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def release(self) -> bool:
        """Deletes the file, and returns whether it existed."""
        try:
            self._file.unlink()
        except OSError:
            return False
        return True
