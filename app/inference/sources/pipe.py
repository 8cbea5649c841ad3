"""A named pipe into which another program of this machine writes a video, such as MPEG-TS."""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable


class NamedPipe(io.FileIO):
    """The reading end of a pipe, for PyAV. It waits for whoever writes, and ends when they do.

    Args:
        path: of the pipe.
        patience_s: seconds that each read may wait.
        silence: returns the error of a read that has waited so long.
    """

    def __init__(self, path: str, *, patience_s: float, silence: Callable[[], Exception]) -> None:
        """Opens the pipe.

        Raises:
            OSError: It cannot be opened.
        """
        super().__init__(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
        self._patience_s, self._silence = patience_s, silence

    def read(self, size: int | None = -1) -> bytes:
        """Returns what is there, at most `size` bytes; nothing at the end."""
        while True:
            ready, _, _ = select.select([self], [], [], self._patience_s)
            if not ready:
                raise self._silence()
            data = super().read(size if size is not None else -1)
            if data is not None:  # otherwise another reader has taken it
                return data
