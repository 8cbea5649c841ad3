"""What a runner remembers across a restart, in a small file of its folder."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from app.edge.object_follower import ObjectFollower
from app.kit.files import SHARED, write_whole
from app.results.model.track import MOST_OBJECTS, TrackingState

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
    """A small JSON file in the job's folder.

    Attributes:
        objects: gives the objects in the frames their ids.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._lock = threading.Lock()
        self.state, tracking = self._read()
        self.objects = ObjectFollower(tracking, self.write)

    def write(self) -> None:
        """Writes the file. A failure is logged, and the job continues."""
        with self._lock:
            text = json.dumps({**vars(self.state), "tracking": self.objects.to_json()})
            try:
                write_whole(self._path, text, mode=SHARED)
            except OSError as error:
                logger.warning("%s cannot be written: %s", self._path, error)

    def _read(self) -> tuple[Checkpoint, TrackingState]:
        try:
            data = json.loads(self._path.read_bytes())
            state = Checkpoint(int(data["seq"]), int(data["n_loop"]), int(data["asked"]))
            state.ending, state.reason = str(data["ending"]), str(data["reason"])
            if "tracking" in data:
                return state, TrackingState.from_json(data["tracking"])
            return state, _begin_tracking(state.n_loop)  # an older version: the web server numbered the objects
        except FileNotFoundError:
            return Checkpoint(), TrackingState()
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s is damaged and begun anew: %s", self._path, error)
            seconds = int(time.time())  # greater than all earlier numbers
            return Checkpoint(seconds, seconds, seconds), _begin_tracking(seconds)


def _begin_tracking(n_loop: int) -> TrackingState:
    """Begins with an id that no object in the frames so far can have."""
    return TrackingState(next_id=n_loop * MOST_OBJECTS + 1)
