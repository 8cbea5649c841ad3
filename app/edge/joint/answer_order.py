"""The answers of each source in the order of its samples, with the ids of their objects.

The cloud answers hard samples later than the small model answers the samples after them, and not in their order.
Objects are followed from sample to sample, so an answer has to wait for those before it. If more than MOST_HELD wait,
the unanswered samples before them are late: their objects get ids when they are answered.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from app.edge.joint.outcome import Place
from app.edge.object_follower import ObjectFollower
from app.kit.files import SHARED, write_whole
from app.kit.text.json_values import JsonObject
from app.results.model.track import TrackingState

MOST_HELD = 16
"""Each may hold a picture, and all delay the broadcast."""
NAME = "objects.json"
logger = logging.getLogger(__name__)
OnTurn = Callable[[JsonObject], None]


class AnswerOrder:
    """Of one source. For any thread.

    Attributes:
        late: how many samples were late.
    """

    def __init__(self, objects: ObjectFollower) -> None:
        self.late = 0
        self._objects = objects
        self._lock = threading.Lock()
        self._line = OrderedDict[Place, tuple[JsonObject, OnTurn] | None]()
        self._held = 0
        """How many in the line are answered."""

    def add(self, place: Place) -> None:
        """A sample has come."""
        with self._lock:
            self._line[place] = None

    def fill(self, place: Place, row: JsonObject, on_turn: OnTurn) -> None:
        """A sample is answered.

        Args:
            row: without ids.
            on_turn: called with the row and its ids at the sample's turn, for one sample at a time.
        """
        with self._lock:
            if place.is_late:
                newest = self._objects.tracking.at
                self._take_turn(max(place.at, newest or 0.0), row, on_turn)
                return
            self._line[place] = row, on_turn
            self._held += 1
            while self._line and (self._held > MOST_HELD or next(iter(self._line.values())) is not None):
                first, answer = self._line.popitem(last=False)
                first.is_late = answer is None
                self.late += first.is_late
                if answer is not None:
                    self._held -= 1
                    self._take_turn(first.at, *answer)

    def _take_turn(self, at_s: float, row: JsonObject, on_turn: OnTurn) -> None:
        on_turn(self._objects.add_ids(row, row["size"], at_s))


class AnswerOrders:
    """Of all sources of a worker, and the file that keeps their objects over a restart. For any thread.

    Args:
        path: of the file; None: nothing is kept.
        first_id: of an object, where there is no file.
    """

    def __init__(self, path: Path | None, first_id: int = 1) -> None:
        self._path = path
        self._first_id = first_id
        self._lock = threading.Lock()
        self._saved = ""
        self._objects = dict[str, ObjectFollower]()
        self._orders = dict[str, AnswerOrder]()
        if path is not None:
            self._read(path)

    @property
    def late(self) -> int:
        """Returns how many samples were late."""
        with self._lock:
            return sum(order.late for order in self._orders.values())

    def of(self, source: str) -> AnswerOrder:
        """Returns that of a source."""
        with self._lock:
            if source not in self._orders:
                objects = self._objects.setdefault(source, self._follow(TrackingState(next_id=self._first_id)))
                self._orders[source] = AnswerOrder(objects)
            return self._orders[source]

    def save(self) -> None:
        """Writes the file if anything has changed. A failure is logged."""
        if self._path is None:
            return
        with self._lock:
            sources = {name: objects.to_json() for name, objects in self._objects.items()}
            text = json.dumps({"first_id": self._first_id, "sources": sources})
            if text == self._saved:
                return
            try:
                write_whole(self._path, text, mode=SHARED)
            except OSError as error:
                logger.warning("The objects cannot be kept in %s: %s", self._path, error)
            else:
                self._saved = text

    def _follow(self, tracking: TrackingState) -> ObjectFollower:
        return ObjectFollower(tracking, self.save)

    def _read(self, path: Path) -> None:
        try:
            data = json.loads(path.read_bytes())
            self._objects = {
                str(name): self._follow(TrackingState.from_json(one)) for name, one in data["sources"].items()
            }
            self._first_id = int(data["first_id"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            logger.warning("The objects in %s cannot be read, their ids begin anew: %s", path, error)
