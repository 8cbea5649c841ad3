"""An event: what a rule has detected in rows. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired

from typing_extensions import TypedDict

from app.results.model.frame_result import are_apart
from app.results.model.rule import Direction


class EventObject(TypedDict):
    """An object for which a rule held."""

    label: str
    score: float | None
    bbox: list[float]
    """x1, y1, x2, y2 in pixels of the source."""
    track: int
    """Its id."""
    direction: NotRequired[Direction]
    """In which a line was crossed."""


@dataclass(frozen=True)
class RuleEvent:
    """A rule held."""

    rule: str
    n_loop: int
    """Number of the frame in which it was detected."""
    at: str
    """When the frame was answered, by the node's clock."""
    objects: Sequence[Mapping[str, Any]]
    """See EventObject."""
    zone: str = ""
    event_id: int = 0
    """Increases with each event; 0 until it is stored."""
    picture_at: str | None = None
    """When its stored picture arrived; None if there is none."""
    node: str = ""
    """The node of the fleet that answered the frame; empty: the producer has one."""
    source: str = ""
    """Where the frame came from; empty: the producer has one source."""
    stored_at: str = ""
    """By the web's clock; empty until it is stored."""

    @property
    def was_stored_apart(self) -> bool:
        return are_apart(self.at, self.stored_at)

    @property
    def text(self) -> str:
        """A summary in one line: `2 × person, car in door`; with its origin, if the producer has several."""
        origin = " ".join(filter(None, (self.node, self.source)))
        return f"{self._summary} ({origin})" if origin else self._summary

    @property
    def _summary(self) -> str:
        counts = Counter(one["label"] or "object" for one in self.objects)
        things = ", ".join(f"{count} × {label}" if count > 1 else label for label, count in counts.items())
        ways = sorted({str(one["direction"]) for one in self.objects if one.get("direction")})
        if ways:
            return f"{things} crossed {self.zone} to the {' and '.join(ways)}"
        return f"{things} in {self.zone}" if self.zone else things


@dataclass(frozen=True)
class Crossings:
    """How many objects have crossed the line of a rule in a frame. Counted whether there is an event or not: a
    cool-down delays events, and not what is counted."""

    rule: str
    n_loop: int
    """Number of the frame, unique for a producer."""
    at: str
    """When the frame was answered, by the node's clock."""
    to_left: int
    to_right: int


@dataclass(frozen=True)
class RuleCounts:
    """What a rule has counted in a time."""

    events: int = 0
    left: int = 0
    """Objects that have crossed its line to the left."""
    right: int = 0

    @property
    def crossings(self) -> dict[Direction, int]:
        """By direction; empty for a rule without a line."""
        is_line = self.left or self.right
        return {Direction.LEFT: self.left, Direction.RIGHT: self.right} if is_line else {}
