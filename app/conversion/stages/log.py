"""The log of a running stage: a file with a size limit, and a live copy handed on in portions."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import IO


class StageLog:
    """Written by the stage's thread, drained by its heartbeat. What exceeds limit_bytes is dropped and counted.

    live_bytes: how much is handed on; what comes after it only goes to the file, and is not held in memory for nobody.
    """

    def __init__(self, path: Path, limit_bytes: int, live_bytes: int) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self.live_bytes = live_bytes
        self._lock = threading.Lock()
        self._pending = bytearray()
        self._written = 0
        self._dropped = 0
        self._file: IO[bytes]

    def __enter__(self) -> StageLog:
        self._file = self.path.open("wb", buffering=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._dropped:
            note = f"\n[log limit of {self.limit_bytes} bytes reached: {self._dropped} more bytes were dropped]\n"
            self._file.write(note.encode())
        self._file.close()

    def write(self, data: bytes) -> None:
        kept = data[: max(0, self.limit_bytes - self._written)]
        self._dropped += len(data) - len(kept)
        if not kept:
            return
        self._file.write(kept)
        live = kept[: max(0, self.live_bytes - self._written)]
        self._written += len(kept)
        with self._lock:
            self._pending += live

    def drain(self) -> bytes:
        """What was written since the last call, as far as it is to be shown live."""
        with self._lock:
            portion, self._pending = bytes(self._pending), bytearray()
        return portion
