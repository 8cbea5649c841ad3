"""Sinks of your own program. What a worker answers goes to the sinks of its service anyway."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

from modelmill_edge.prediction import Outcome


class JsonLines:
    """Appends one line of JSON for each outcome, and begins a new file when one is full.

    Args:
        path: of the file; older ones are path.1, path.2 and so on.
        max_bytes: of one file.
        files: how many older ones are kept, 1 at least.
    """

    def __init__(self, path: str | Path, *, max_bytes: int = 64 << 20, files: int = 5) -> None:
        self.path = Path(path)
        self._max_bytes = max_bytes
        self._files = max(1, files)
        self._file = self.path.open("a", encoding="utf-8")

    def write(self, outcome: Outcome) -> None:
        """Appends the outcome as one line.

        Raises:
            OSError: The disk is full; the line is then not in the file as a whole.
        """
        line = {"time": datetime.now(timezone.utc).isoformat(), **asdict(outcome)}
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()
        if self._file.tell() >= self._max_bytes:
            self._rotate()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _rotate(self) -> None:
        self._file.close()
        names = [
            self.path,
            *(self.path.with_name(f"{self.path.name}.{number}") for number in range(1, self._files + 1)),
        ]
        for file, older in reversed(list(zip(names, names[1:]))):
            if file.exists():
                file.replace(older)
        self._file = self.path.open("a", encoding="utf-8")
