"""What a runner remembers across a restart, in a small file of its folder."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from app.kit.files import SHARED, write_whole

NAME = "runner.json"
logger = logging.getLogger(__name__)


@dataclass
class Checkpoint:
    """The state of a runner that survives a restart."""

    seq: int = 0
    """The number of the last report."""
    n_loop: int = 0
    """The number of the last reported frame."""
    asked: int = 0
    """The number of requests for a plan."""
    ending: str = ""
    """The ending of a job that is over."""
    reason: str = ""
    """The reason of the ending."""


class CheckpointFile:
    """A small JSON file in the job's folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._lock = threading.Lock()
        self.state = self._read()

    def write(self) -> None:
        """Writes the file. A failure is logged, and the job continues."""
        with self._lock:
            try:
                write_whole(self._path, json.dumps(asdict(self.state)), mode=SHARED)
            except OSError as error:
                logger.warning("%s cannot be written: %s", self._path, error)

    def _read(self) -> Checkpoint:
        try:
            data = json.loads(self._path.read_bytes())
            return Checkpoint(
                int(data["seq"]), int(data["n_loop"]), int(data["asked"]), str(data["ending"]), str(data["reason"])
            )
        except FileNotFoundError:
            return Checkpoint()
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s is damaged and begun anew: %s", self._path, error)
            seconds = int(time.time())  # greater than all earlier numbers
            return Checkpoint(seconds, seconds, seconds)
