"""Looks after the file that says what this runner is to do: it is written anew when there is another plan."""

from __future__ import annotations

import logging
from pathlib import Path

from app.edge.video.runner.work import NoWork, RunnerWork

EVERY_S = 0.25
logger = logging.getLogger(__name__)


class WatchedWork:
    """For one thread. The first look always reads: the file may be another since this process was told its work."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, int, int] | None = None

    def changed(self) -> RunnerWork | None:
        """What it says now, if it has changed. One that cannot be read is passed over: the last one stays in force."""
        mark = self._seen()
        if mark == self._mark or mark is None:
            return None
        self._mark = mark
        try:
            return RunnerWork.read(self._path)
        except NoWork as error:
            logger.warning("What it says last stays in force: %s", error.message)
            return None

    def _seen(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
