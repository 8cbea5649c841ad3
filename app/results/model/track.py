"""Which object of a frame is which of the frame before. Pure, and small: it runs in the web for every row.

Objects of one class are paired by how near they are, in terms of their size, to where a track was or would be by now if
it went on as it did; the nearest pair first. That holds as long as an object is less than MOST_MOVED of its size from
either place; else it counts as another object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from app.results.model.rule import Point

KEPT_S = 2.0
"""How long an object that is not detected keeps its track, in seconds."""
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
    """Its position relative to the picture: the middle of its lower edge."""
    reach: Point
    """The longer side of its box, relative to the picture's width and to its height."""


@dataclass(frozen=True)
class Track:
    """An object over time."""

    track_id: int
    """Unique among the objects of its job."""
    label: str
    anchor: Point
    """Its position when it was last detected."""
    reach: Point
    seen_at: float
    """When that was, in seconds."""
    since: Mapping[str, float] = field(default_factory=dict)
    """Since when it has been in which area, by name; under "" in the picture."""
    speed: Point | None = None
    """Its movement per second, relative to the picture; None: it was seen only once."""

    def to_json(self) -> list[Any]:
        place = [list(self.anchor), list(self.reach), self.seen_at, dict(self.since)]
        return [self.track_id, self.label, *place, list(self.speed) if self.speed else None]

    @staticmethod
    def from_json(data: Sequence[Any]) -> Track:
        track_id, label, (x, y), (width, height), seen_at, since, speed = data
        return Track(track_id, label, (x, y), (width, height), seen_at, since, (speed[0], speed[1]) if speed else None)

    def within(self, places: Collection[str]) -> Track:
        """It is not known any more since when it has been in other areas than these."""
        return replace(self, since={name: at for name, at in self.since.items() if name in places})

    def expected_at(self, at: float) -> Point:
        """Its expected position then at constant speed; its last position if that was long ago."""
        passed_s = at - self.seen_at
        if self.speed is None or passed_s > KEPT_S:
            return self.anchor
        return self.anchor[0] + self.speed[0] * passed_s, self.anchor[1] + self.speed[1] * passed_s


@dataclass(frozen=True)
class Tracked:
    """An object of a row with its updated track."""

    seen: SeenObject
    track: Track
    before: Point | None
    """Its position in the previous row; None: it is new."""


def advance(
    tracks: Sequence[Track], objects: Sequence[SeenObject], at: float, last_at: float, next_id: int
) -> tuple[list[Tracked], list[Track]]:
    """Pairs the objects of a row with the tracks.

    Args:
        at: Of the row, in seconds; it does not go back.
        last_at: Of the previous row: its objects are searched, however long ago that was.
        next_id: Of the first new track; each further one has the next.

    Returns:
        Each object with its track, in the order of the objects; and the tracks without one, as long as they are kept.
    """
    tracks = [track for track in tracks if track.seen_at >= last_at or at - track.seen_at <= KEPT_S]
    track_of, taken = dict[int, int](), set[int]()
    for _, i, j in sorted(_find_pairs(tracks, objects, at)):
        if i not in track_of and j not in taken:
            track_of[i] = j
            taken.add(j)
    lost = [track for j, track in enumerate(tracks) if j not in taken]
    ids = count(next_id)
    paired = [
        _renew(seen, tracks[track_of[i]], at) if i in track_of else _begin(seen, next(ids), at)
        for i, seen in enumerate(objects)
    ]
    return paired, lost


def _find_pairs(tracks: Sequence[Track], objects: Sequence[SeenObject], at: float) -> Iterator[tuple[float, int, int]]:
    """Yields the distance of an object from the last or expected position of a track, in sides, and the places of both:
    of each pair of one class that is near enough."""
    expected = [track.expected_at(at) for track in tracks]
    for i, seen in enumerate(objects):
        x, y = seen.anchor
        for j, track in enumerate(tracks):
            if seen.label != track.label:
                continue
            width, height = max(seen.reach[0], track.reach[0]), max(seen.reach[1], track.reach[1])
            (last_x, last_y), (next_x, next_y) = track.anchor, expected[j]
            moved = max(abs(x - last_x) / width, abs(y - last_y) / height)
            strayed = max(abs(x - next_x) / width, abs(y - next_y) / height)
            if (cost := min(moved, strayed)) <= MOST_MOVED:
                yield cost, i, j


def _begin(seen: SeenObject, track_id: int, at: float) -> Tracked:
    return Tracked(seen, Track(track_id, seen.label, seen.anchor, seen.reach, at, {"": at}), None)


def _renew(seen: SeenObject, track: Track, at: float) -> Tracked:
    renewed = replace(track, anchor=seen.anchor, reach=seen.reach, seen_at=at, speed=_compute_speed(seen, track, at))
    return Tracked(seen, renewed, track.anchor)


def _compute_speed(seen: SeenObject, track: Track, at: float) -> Point | None:
    """The mean of the old and the new value, because boxes are noisy."""
    passed_s = at - track.seen_at
    if passed_s <= 0:
        return track.speed
    now = (seen.anchor[0] - track.anchor[0]) / passed_s, (seen.anchor[1] - track.anchor[1]) / passed_s
    return now if track.speed is None else ((now[0] + track.speed[0]) / 2, (now[1] + track.speed[1]) / 2)
