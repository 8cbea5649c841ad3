"""The ids of the objects in the rows of one source, on a node: none is given twice, also if the process is killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from app.kit.text.json_values import JsonObject
from app.results.model.frame_result import with_track_ids
from app.results.model.track import TrackingState, read_objects

RESERVED_IDS = 100
"""Ids of objects that are reserved at once, so that new objects seldom write the file."""


class ObjectFollower:
    """For one thread at a time.

    Args:
        tracking: the objects of the newest row.
        write: stores what `to_json` returns; called before an id that is not reserved is in a picture or a row.
    """

    def __init__(self, tracking: TrackingState, write: Callable[[], None]) -> None:
        self.tracking = tracking
        self._write = write
        self._reserved_id = tracking.next_id
        """Ids from this one on are in no picture and no row."""

    def add_ids(self, row: Mapping[str, Any], size: tuple[float, float], at_s: float) -> JsonObject:
        """Returns the next row with the ids of its objects; one that is followed from the row before keeps its id.

        Args:
            size: width and height of the source in pixels.
            at_s: time of the row, in seconds.
        """
        self.tracking, paired = self.tracking.follow(read_objects(row, size), at_s)
        if self.tracking.next_id > self._reserved_id:
            self._reserved_id = self.tracking.next_id + RESERVED_IDS
            self._write()
        return with_track_ids(row, [one.track.track_id for one in paired])

    def to_json(self) -> JsonObject:
        """Returns what a process that begins again needs: it begins above the reserved ids."""
        return replace(self.tracking, next_id=self._reserved_id).to_json()
