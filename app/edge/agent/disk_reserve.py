"""Room on the disk that is held back, so that what makes room can be written down on a disk that is full."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

BYTES = 256 << 10
"""Of which SQLite takes a few pages for a deletion."""


class Reserve:
    """A file of bytes that no file system can leave out."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def fill(self) -> None:
        """Without an error where there is no room."""
        if self._file.exists():
            return
        try:
            self._file.touch(mode=0o600)
            self._file.write_bytes(os.urandom(BYTES))
        except OSError:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def release(self) -> bool:
        """Was there something to give up?"""
        try:
            self._file.unlink()
        except OSError:
            return False
        return True
