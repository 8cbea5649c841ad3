"""Which object of a frame is which of the frame before. Pure, and small: it runs for every row.

The node of a video job numbers the objects, so that its pictures show the ids of the rows. The web server keeps the ids
of rows that have them, and numbers the objects of the others.

Objects of one class are paired by how near they are, in terms of their size, to where a track was or would be by now if
it went on as it did, and by how alike their sizes are; the best pair first. That holds as long as an object is less
than MOST_MOVED of its size from either place; else it counts as another object. docs/decisions/0024-own-tracker.md says
why no package does it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any

from app.kit.text.json_values import JsonObject
from app.results.model.frame_result import objects_in
from app.results.model.rule import Point

KEPT_S = 2.0
"""How long an object that is not detected keeps its track, in seconds."""
MOST_MOVED = 1.0
"""In longer sides of its box."""
SIZE_WEIGHT = 0.5
"""Of the logarithm of the ratio of two sizes, beside the distance: objects that pass each other keep their ids."""
MOST_OBJECTS = 60
"""Of a row; the work grows with its square."""
MOST_BACK_S = 1.0
"""A clock that goes further back is another one: no object is followed from before."""


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
    track_id: int | None = None
    """Its id, if the row has one for it."""


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


@dataclass(frozen=True)
class TrackingState:
    """The tracks of the rows of one origin, from row to row: objects are followed within one picture."""

    at: float | None = None
    """Of the last row, in seconds."""
    tracks: tuple[Track, ...] = ()
    next_id: int = 1
    """Of the next new object."""

    def to_json(self) -> JsonObject:
        return {"at": self.at, "tracks": [track.to_json() for track in self.tracks], "next_track": self.next_id}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TrackingState:
        next_id = data.get("next_track", 0)
        tracks = map(Track.from_json, data["tracks"] if next_id else ())  # from an older version, without ids
        return TrackingState(data["at"], tuple(tracks), next_id or 1)

    def has_other_clock(self, at: float) -> bool:
        """Whether a row of this time, in seconds, is by another clock than the last one."""
        return self.at is not None and at < self.at - MOST_BACK_S

    def follow(self, objects: Sequence[SeenObject], at: float) -> tuple[TrackingState, list[Tracked]]:
        """Pairs the objects of the next row with the tracks: by their ids if each has one, otherwise by their places.

        Args:
            objects: Of the row, at most MOST_OBJECTS.
            at: Of the row, in seconds.

        Returns:
            The state after it, and each object with its track, in the order of the objects.
        """
        before = TrackingState(next_id=self.next_id) if self.has_other_clock(at) else self
        last_at = at if before.at is None else before.at
        at = max(at, last_at)
        tracks = [track for track in before.tracks if track.seen_at >= last_at or at - track.seen_at <= KEPT_S]
        ids = _get_ids(objects)
        if ids:
            track_of = {track.track_id: track for track in tracks}
            chosen = [track_of.get(track_id) for track_id in ids]
        else:
            chosen, new_ids = _choose_tracks(tracks, objects, at), count(self.next_id)
            ids = [track.track_id if track is not None else next(new_ids) for track in chosen]
        paired = [
            _renew(seen, track, at) if track is not None else _begin(seen, track_id, at)
            for seen, track, track_id in zip(objects, chosen, ids, strict=True)
        ]
        lost = [track for track in tracks if track.track_id not in ids]
        following = (*(one.track for one in paired), *lost)
        return TrackingState(at, following, max([self.next_id, *(track_id + 1 for track_id in ids)])), paired


def read_objects(row: Mapping[str, Any], size: tuple[float, float]) -> list[SeenObject]:
    """Returns the objects of a row, at most MOST_OBJECTS.

    Args:
        size: Width and height of the source in pixels.
    """
    width, height = size
    return [
        SeenObject(
            one.label,
            one.score,
            one.box,
            anchor=((x1 + x2) / 2 / width, y2 / height),
            reach=(max(x2 - x1, y2 - y1, 1) / width, max(x2 - x1, y2 - y1, 1) / height),
            track_id=one.track_id,
        )
        for one in islice(objects_in(row), MOST_OBJECTS)
        for x1, y1, x2, y2 in (one.box,)
    ]


def _get_ids(objects: Sequence[SeenObject]) -> list[int]:
    """Returns the ids that the row has for its objects; none if an object lacks one, or two have the same."""
    ids = [one.track_id for one in objects if one.track_id is not None]
    return ids if len(set(ids)) == len(objects) else []


def _choose_tracks(tracks: Sequence[Track], objects: Sequence[SeenObject], at: float) -> list[Track | None]:
    """Returns the track of each object by its place; None for a new object."""
    chosen: list[Track | None] = [None] * len(objects)
    taken = set[int]()
    for _, i, j in sorted(_find_pairs(tracks, objects, at)):
        if chosen[i] is None and j not in taken:
            chosen[i] = tracks[j]
            taken.add(j)
    return chosen


def _find_pairs(tracks: Sequence[Track], objects: Sequence[SeenObject], at: float) -> Iterator[tuple[float, int, int]]:
    """Yields how different an object and a track are, by distance from its last or expected position and by size, and
    the places of both: of each pair of one class that is near enough."""
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
            if (distance := min(moved, strayed)) <= MOST_MOVED:
                yield distance + SIZE_WEIGHT * abs(math.log(seen.reach[0] / track.reach[0])), i, j


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
