"""Which object of a frame is which of the frame before. Pure, and small: it runs in the web for every row.

Objects of one class are paired by how near they are in terms of their size, the nearest pair first. That holds as long
as an object moves less than MOST_MOVED of its size from row to row; one that is faster counts as another object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.video.model.zone import Point

KEPT_S = 2.0
"""So long an object that is not detected keeps its track, in seconds."""
MOST_MOVED = 1.0
"""In longer sides of its box."""
MOST_OBJECTS = 60
"""Of a row; the work grows with its square."""


@dataclass(frozen=True)
class SeenObject:
    """An object of a row."""

    label: str
    score: float | None
    box: Sequence[float]
    """x1, y1, x2, y2 in pixels of the source."""
    anchor: Point
    """Where it stands, relative to the picture: the middle of its lower edge."""
    reach: Point
    """The longer side of its box, relative to the picture's width and to its height."""


@dataclass(frozen=True)
class Track:
    """An object over time."""

    label: str
    anchor: Point
    """Where it stood when it was last detected."""
    reach: Point
    seen_at: float
    """When that was, in seconds."""
    since: Mapping[str, float] = field(default_factory=dict)
    """Since when it has been in which area, by its name; under "" in the picture."""

    def to_json(self) -> list[Any]:
        return [self.label, list(self.anchor), list(self.reach), self.seen_at, dict(self.since)]

    @staticmethod
    def from_json(data: Sequence[Any]) -> Track:
        label, (x, y), (width, height), seen_at, since = data
        return Track(label, (x, y), (width, height), seen_at, since)


@dataclass(frozen=True)
class Tracked:
    """An object of a row with its track, which the row has renewed."""

    seen: SeenObject
    track: Track
    before: Point | None
    """Where it stood in the row before; None: it is new."""


def advance(
    tracks: Sequence[Track], objects: Sequence[SeenObject], at: float, last_at: float
) -> tuple[list[Tracked], list[Track]]:
    """Pairs the objects of a row with the tracks.

    Args:
        at: Of the row, in seconds; it does not go back.
        last_at: Of the row before: what was detected there is looked for, however long ago that was.

    Returns:
        Each object with its track, in the order of the objects; and the tracks without one, as long as they are kept.
    """
    tracks = [track for track in tracks if track.seen_at >= last_at or at - track.seen_at <= KEPT_S]
    pairs = sorted(
        (cost, i, j)
        for i, seen in enumerate(objects)
        for j, track in enumerate(tracks)
        if (cost := _cost(seen, track)) is not None
    )
    track_of, taken = dict[int, int](), set[int]()
    for _, i, j in pairs:
        if i not in track_of and j not in taken:
            track_of[i] = j
            taken.add(j)
    lost = [track for j, track in enumerate(tracks) if j not in taken]
    return [_tracked(seen, tracks[track_of[i]] if i in track_of else None, at) for i, seen in enumerate(objects)], lost


def _cost(seen: SeenObject, track: Track) -> float | None:
    """How far it would have moved, in sides; None: too far, or it is another class."""
    if seen.label != track.label:
        return None
    sides = (max(now, before) for now, before in zip(seen.reach, track.reach, strict=True))
    moved = (abs(now - before) for now, before in zip(seen.anchor, track.anchor, strict=True))
    cost = max(way / side for way, side in zip(moved, sides, strict=True))
    return cost if cost <= MOST_MOVED else None


def _tracked(seen: SeenObject, track: Track | None, at: float) -> Tracked:
    if track is None:
        return Tracked(seen, Track(seen.label, seen.anchor, seen.reach, at, {"": at}), None)
    return Tracked(seen, replace(track, anchor=seen.anchor, reach=seen.reach, seen_at=at), track.anchor)
