"""What a runner must still know after it has been started anew. One small JSON file in the job's folder."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

NAME = "runner.json"
logger = logging.getLogger(__name__)


@dataclass
class Checkpoint:
    """seq: of the last report; n_loop: of the last frame in one; asked: number of demands for a plan. ending, reason:
    of a job that is over."""

    seq: int = 0
    n_loop: int = 0
    asked: int = 0
    ending: str = ""
    reason: str = ""


class CheckpointFile:
    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._lock = threading.Lock()
        self.kept = self._read()

    def write(self) -> None:
        """What cannot be written is logged: the job goes on."""
        fresh = self._path.with_name(f"{NAME}.new")
        with self._lock:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                fresh.write_text(json.dumps(asdict(self.kept)), encoding="utf-8")
                fresh.replace(self._path)
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
            later = int(time.time())  # greater than all that was counted before
            return Checkpoint(later, later, later)
