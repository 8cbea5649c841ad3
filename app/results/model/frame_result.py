"""The stored answers of models for a frame, and filters over them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeGuard

from typing_extensions import TypedDict

from app.kit.clock import from_text, to_text
from app.kit.text.json_values import JsonObject


class Row(TypedDict, total=False):
    """What is stored of a frame, as its node reported it; beside these keys it has counts by name."""

    n_loop: int
    """Number of the frame."""
    at: float
    """Seconds since 1970, by the node's clock."""
    pts: float | None
    """Of a video job: seconds in the source."""
    e2e: float
    """Of a video job: seconds from the frame's capture to its result."""
    tracked: bool
    """Of a video job: a tracker carried the boxes from an earlier frame."""
    plan: int | None
    """Of a video job: seq of the plan by which the frame was processed."""
    bbox: list[list[float]]
    """x1, y1, x2, y2 of each object, in pixels of the source."""
    labels: list[str]
    scores: list[float]
    ids: list[int | None]
    """Of each object over time, given by its node; null: it is not followed."""
    keypoints: list[list[list[float]]]
    """Of each object [x, y, score] of each of its key points."""
    masks: list[list[list[float]]]
    """Of each object its polygons, [x, y, x, y, …] each."""
    size: list[int]
    """Width and height of the source."""
    sample: str
    """Of a service: the sample's id."""
    answered_by: str
    """Of a service: edge, cloud or edge_fallback."""
    is_hard: bool
    node: str
    """Of a service on several nodes."""
    source: str
    """Of a service with several sources."""
    model_name: str
    model_version: int


FACTS = frozenset(Row.__annotations__)
"""Keys of a row other than its counts."""
APART_S = 60.0
MOST_SECONDS = 2.0e11
"""Seconds since 1970; later times have no date."""
MOST_CHARACTERS = 63
"""Of the name of a node or source."""
MOST_SIDE = 1e9
"""Largest side of a box, in pixels."""
MOST_NUMBER = 1e300
"""A report may contain whole numbers beyond a float's."""
MOST_TRACK_ID = (1 << 53) - 1
"""Greater whole numbers are not exact in JavaScript."""


@dataclass(frozen=True)
class DetectedObject:
    box: Sequence[float]
    """x1, y1, x2, y2 in pixels of the source."""
    label: str
    """Empty if the stage has no class names."""
    score: float | None
    keypoints: Sequence[Sequence[float]] = ()
    """x, y in pixels of the source, and score, of each; empty if the model has none."""

    mask: Sequence[Sequence[float]] = ()
    """Polygons x, y, x, y, … in pixels of the source; empty if the model has none."""

    track_id: int | None = None
    """Id of its track, the same as long as it is followed; None: it is not."""

    def details(self) -> JsonObject:
        """Returns id, keypoints and mask as JSON, each only if it has one."""
        details = {"keypoints": self.keypoints, "mask": self.mask}
        stated = {name: [list(row) for row in rows] for name, rows in details.items() if rows}
        return stated if self.track_id is None else {"id": self.track_id, **stated}


@dataclass(frozen=True)
class ClassSummary:
    """The objects of one class in a frame."""

    label: str
    count: int
    lowest: float | None
    """Score; None without scores."""
    highest: float | None
    track_ids: Sequence[int]
    """Of those that are followed."""


@dataclass(frozen=True)
class FrameRecord:
    """A stored row."""

    n_loop: int
    at: str
    """By the node's clock, ISO 8601 in UTC."""
    row: Mapping[str, Any]
    """As its node reported it."""
    stored_at: str = ""
    """By the web's clock; empty: it is not stored, or that is not known."""

    @property
    def was_stored_apart(self) -> bool:
        return are_apart(self.at, self.stored_at)

    @property
    def counts(self) -> dict[str, float]:
        """The counts in the row, by name."""
        return {name: value for name, value in self.row.items() if name not in FACTS and is_number(value)}

    @property
    def origin(self) -> tuple[str, str]:
        """The node and the source, of a producer that has several; otherwise empty."""
        return _name(self.row.get("node")), _name(self.row.get("source"))

    @property
    def objects(self) -> list[DetectedObject]:
        return list(objects_in(self.row))

    @property
    def classes(self) -> list[ClassSummary]:
        """The objects by class, the most frequent class first."""
        by_label: dict[str, list[DetectedObject]] = {}
        for one in self.objects:
            by_label.setdefault(one.label, []).append(one)
        summaries = [_summarize(label, objects) for label, objects in by_label.items()]
        return sorted(summaries, key=lambda summary: -summary.count)

    @property
    def object_count(self) -> int:
        return len(self.row.get("bbox") or ())


def _summarize(label: str, objects: Sequence[DetectedObject]) -> ClassSummary:
    scores = [one.score for one in objects if one.score is not None]
    track_ids = [one.track_id for one in objects if one.track_id is not None]
    return ClassSummary(label, len(objects), min(scores, default=None), max(scores, default=None), track_ids)


@dataclass(frozen=True)
class ResultFilter:
    """Selects rows. None and "" select all."""

    since: str | None = None
    """ISO 8601 in UTC, included."""
    until: str | None = None
    """Excluded."""
    label: str = ""
    """At least one object has this class."""
    min_score: float | None = None
    """At least one object (of that class) has at least this score."""

    def matches(self, record: FrameRecord) -> bool:
        """Checks the objects; the store selects by time."""
        if not self.label and self.min_score is None:
            return True
        return any(self._fits(detected) for detected in record.objects)

    def _fits(self, detected: DetectedObject) -> bool:
        is_sure = self.min_score is None or (detected.score is not None and detected.score >= self.min_score)
        return is_sure and (not self.label or detected.label == self.label)


def moment_of(row: Mapping[str, Any], now: datetime) -> str:
    """Returns when the frame was answered, by the node's clock; now if the node does not report it."""
    at = row.get("at")
    if is_number(at) and 0 <= at < MOST_SECONDS:
        return to_text(datetime.fromtimestamp(at, UTC))
    return to_text(now)


def are_apart(at: str, stored_at: str) -> bool:
    """Whether what a node dates was not stored then: its clock is wrong, or the node has kept it for a time.

    Args:
        stored_at: empty: that is not known.
    """
    return bool(stored_at) and abs((from_text(stored_at) - from_text(at)).total_seconds()) >= APART_S


def objects_in(row: Mapping[str, Any]) -> Iterator[DetectedObject]:
    """Yields the objects of a row; invalid boxes are ignored, since a report may contain anything."""
    labels, scores, ids = row.get("labels"), row.get("scores"), row.get("ids")
    for place, box in enumerate(_read_boxes(row)):
        if _is_box(box):
            label, score, track_id = _get_at(labels, place), _get_at(scores, place), _get_at(ids, place)
            name = label if isinstance(label, str) else ""
            keypoints = _check_rows(_get_at(row.get("keypoints"), place), 3, 3)
            mask = _check_rows(_get_at(row.get("masks"), place), 2, 6)
            known = track_id if _is_track_id(track_id) else None
            yield DetectedObject(box, name, score if is_number(score) else None, keypoints, mask, known)


def with_track_ids(row: Mapping[str, Any], track_ids: Sequence[int]) -> JsonObject:
    """Returns a row with the ids of its objects, as many as are given, instead of those that it has."""
    remaining = iter(track_ids)
    ids = [next(remaining, None) if _is_box(box) else None for box in _read_boxes(row)]
    rest = {name: value for name, value in row.items() if name != "ids"}
    return {**rest, "ids": ids} if track_ids else rest


def labels_in(row: Mapping[str, Any]) -> list[str]:
    """Returns the classes of its objects, each once."""
    return sorted({detected.label for detected in objects_in(row) if detected.label})


def is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -MOST_NUMBER <= value <= MOST_NUMBER


def _name(value: object) -> str:
    """A report may contain anything."""
    return value if isinstance(value, str) and len(value) <= MOST_CHARACTERS and value.isprintable() else ""


def _read_boxes(row: Mapping[str, Any]) -> list[Any]:
    boxes = row.get("bbox")
    return boxes if isinstance(boxes, list) else []


def _is_box(box: object) -> bool:
    return isinstance(box, list) and len(box) == 4 and all(map(_is_side, box))


def _is_track_id(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_TRACK_ID


def _is_side(value: object) -> bool:
    return isinstance(value, int | float) and -MOST_SIDE <= value <= MOST_SIDE


def _check_rows(rows: object, multiple: int, least: int) -> Sequence[Sequence[float]]:
    """Returns rows of that many numbers; none if one is something else."""
    if not isinstance(rows, list):
        return ()
    are_valid = all(
        isinstance(row, list) and len(row) >= least and len(row) % multiple == 0 and all(map(_is_side, row))
        for row in rows
    )
    return rows if are_valid else ()


def _get_at(values: object, place: int) -> object:
    return values[place] if isinstance(values, list) and place < len(values) else None
