"""What a runner remembers across a restart, in a small file of its folder."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.kit.files import SHARED, write_whole
from app.results.model.track import MOST_OBJECTS, TrackingState

NAME = "runner.json"
RESERVED_IDS = 100
"""Ids of objects that are reserved at once, so that new objects seldom write the file."""
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
    tracking: TrackingState = field(default_factory=TrackingState)
    """The objects in the newest frame."""


class CheckpointFile:
    """A small JSON file in the job's folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._lock = threading.Lock()
        self.state = self._read()
        self._reserved_id = self.state.tracking.next_id
        """Ids from this one on are in no picture and no row."""

    def put_tracking(self, tracking: TrackingState) -> None:
        """Takes the objects of a frame before it is drawn and reported, so that no other object gets their ids, also if
        the process is killed."""
        self.state.tracking = tracking
        if tracking.next_id > self._reserved_id:
            self._reserved_id = tracking.next_id + RESERVED_IDS
            self.write()

    def write(self) -> None:
        """Writes the file. A failure is logged, and the job continues."""
        with self._lock:
            tracking = replace(self.state.tracking, next_id=self._reserved_id)
            text = json.dumps({**vars(self.state), "tracking": tracking.to_json()})
            try:
                write_whole(self._path, text, mode=SHARED)
            except OSError as error:
                logger.warning("%s cannot be written: %s", self._path, error)

    def _read(self) -> Checkpoint:
        try:
            data = json.loads(self._path.read_bytes())
            numbers = int(data["seq"]), int(data["n_loop"]), int(data["asked"])
            return Checkpoint(*numbers, str(data["ending"]), str(data["reason"]), _read_tracking(data))
        except FileNotFoundError:
            return Checkpoint()
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.warning("%s is damaged and begun anew: %s", self._path, error)
            seconds = int(time.time())  # greater than all earlier numbers
            return Checkpoint(seconds, seconds, seconds, tracking=_begin_tracking(seconds))


def _read_tracking(data: Mapping[str, Any]) -> TrackingState:
    """An older version has none: the web server numbered the objects then."""
    return TrackingState.from_json(data["tracking"]) if "tracking" in data else _begin_tracking(int(data["n_loop"]))


def _begin_tracking(n_loop: int) -> TrackingState:
    """Begins with an id that no object in the frames so far can have."""
    return TrackingState(next_id=n_loop * MOST_OBJECTS + 1)
