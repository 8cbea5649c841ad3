"""Follows the objects of a producer's rows as they arrive, and evaluates its rules. Pure: state in; state, events and
rows with the ids of their objects out.

Rules are evaluated in the web server, in the transaction that stores the rows: rows come there in order, each once,
including those that a node kept while it was disconnected. So each row is evaluated once, with the current rules, and
its events are committed or rolled back with it. The price: an event is known when its row is, usually within a second,
and as late as the row if the link was down. Its time is that of the frame. A node that delivers events by itself
evaluates its rows, too, in the transaction that stores them there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from app.kit.clock import from_text
from app.kit.text.json_values import JsonObject
from app.results.model.event import Crossings, RuleEvent
from app.results.model.frame_result import FrameRecord, is_number, with_track_ids
from app.results.model.rule import Direction, Rule, RuleSet, Zone
from app.results.model.track import Track, Tracked, TrackingState, read_objects

REARM_S = 2.0
"""A rule that does not hold for a shorter time has not ceased to hold: a detector misses an object occasionally."""
MOST_GAP_S = 60.0
"""Maximum time between two rows: after a longer one, the state before may no longer apply."""
NO_BOXES = "no_boxes"
NO_SIZE = "no_size"
Origin = tuple[str, str]
"""Node and source of rows; empty where a producer has only one."""
Size = tuple[float, float]
"""Width and height of the source, pixels."""


@dataclass(frozen=True)
class RuleState:
    """The state of a rule from row to row. Times in seconds of the rows' clock."""

    frames: int = 0
    """Consecutive processed frames in which it has held."""
    held_at: float | None = None
    """When it last held."""
    is_missed: bool = False
    """It did not hold in the last row."""
    is_told: bool = False
    """An event exists for the current period in which it holds."""
    told_at: float | None = None
    """Time of its last event."""


@dataclass(frozen=True)
class EvaluationState:
    """The state of tracks and rules for the rows of one origin."""

    tracking: TrackingState = field(default_factory=TrackingState)
    rules: Mapping[str, RuleState] = field(default_factory=dict)
    problem: str = ""
    """NO_BOXES, NO_SIZE: why no rule can hold; for the last row."""

    def to_json(self) -> JsonObject:
        rules = {name: vars(state) for name, state in self.rules.items()}
        return {**self.tracking.to_json(), "rules": rules, "problem": self.problem}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> EvaluationState:
        rules = {name: RuleState(**state) for name, state in data["rules"].items()}
        return EvaluationState(TrackingState.from_json(data), rules, data["problem"])

    def following(self, before: RuleSet, after: RuleSet) -> EvaluationState:
        """The state under other rules: unchanged rules, with their zones, keep theirs."""
        kept = {
            rule.name: self.rules[rule.name]
            for rule in after.rules
            if rule.name in self.rules and rule in before.rules and after.zone_of(rule) == before.zone_of(rule)
        }
        places = {"", *(zone.name for zone in after.zones if zone in before.zones)}
        tracks = tuple(track.within(places) for track in self.tracking.tracks)
        return replace(self, rules=kept, tracking=replace(self.tracking, tracks=tracks))


class Evaluation(NamedTuple):
    state: EvaluationState
    events: list[RuleEvent]
    """Oldest first."""
    records: list[FrameRecord]
    """The rows, with the ids of their objects."""
    crossings: list[Crossings]
    """Of each rule with a line, in each frame in which it was crossed."""


class Matched(NamedTuple):
    """What a rule has detected in a row."""

    rule: Rule
    objects: list[Tracked]
    is_event: bool
    """False: crossings that are counted during a cool-down."""


def evaluate_origins(
    rule_set: RuleSet, state_of: Callable[[Origin], EvaluationState], records: Iterable[FrameRecord], **facts: Any
) -> dict[Origin, Evaluation]:
    """Evaluates rows, oldest first, those of each origin apart. facts: as of `evaluate`."""
    by_origin = attrgetter("origin")
    groups = groupby(sorted(records, key=by_origin), by_origin)
    return {origin: evaluate(rule_set.of(*origin), state_of(origin), group, **facts) for origin, group in groups}


def evaluate(
    rule_set: RuleSet, state: EvaluationState, records: Iterable[FrameRecord], *, size: Size | None, by_pts: bool
) -> Evaluation:
    """Evaluates rows, oldest first.

    Args:
        size: Of the source, for rows without their own; None: unknown.
        by_pts: Time is that in the source, if a row has one; otherwise that of the node's clock.
    """
    events, numbered, crossings = list[RuleEvent](), list[FrameRecord](), list[Crossings]()
    for record in records:
        row_size = size_of_row(record.row) or size
        problem = NO_BOXES if "bbox" not in record.row else "" if row_size is not None else NO_SIZE
        objects = read_objects(record.row, row_size) if row_size is not None else []
        at = _time_of(record, by_pts=by_pts)
        rules = {} if state.tracking.has_other_clock(at) else state.rules
        tracking, paired = state.tracking.follow(objects, at)
        state, matched = _judge(rule_set, EvaluationState(tracking, rules, problem), paired, record)
        for one in matched:
            zone = rule_set.zone_of(one.rule)
            crossings += [_count_crossings(one, zone, record)] if zone is not None and zone.is_line else []
            events += [_event_of(one, zone, record)] if one.is_event else []
        track_ids = [one.track.track_id for one in paired]
        numbered.append(replace(record, row=with_track_ids(record.row, track_ids)))
    return Evaluation(state, events, numbered, crossings)


def _judge(
    rule_set: RuleSet, state: EvaluationState, paired: list[Tracked], record: FrameRecord
) -> tuple[EvaluationState, list[Matched]]:
    at = state.tracking.at or 0.0
    is_new = not record.row.get("tracked")  # a stage has processed the frame; otherwise its boxes were carried over
    tracked = [replace(one, track=_place(one.track, rule_set.zones, at)) for one in paired]
    rules, matched = dict[str, RuleState](), list[Matched]()
    for rule in rule_set.rules:
        zone = rule_set.zone_of(rule)
        matching = [one for one in tracked if _fits(rule, zone, one, at)]
        before = state.rules.get(rule.name, RuleState())
        is_line = zone is not None and zone.is_line
        if is_line:
            due, fires = before, bool(matching)
        else:
            due, fires = _count(rule, before, len(matching) >= rule.at_least, at, is_new=is_new)
        fires = fires and (rule.schedule is None or rule.schedule.covers(from_text(record.at)))
        is_event = fires and (due.told_at is None or at - due.told_at >= rule.cooldown_s)
        rules[rule.name] = replace(due, is_told=True, told_at=at) if is_event else due
        if is_event or (fires and is_line):
            matched.append(Matched(rule, matching, is_event))
    placed = {one.track.track_id: one.track for one in tracked}
    tracks = tuple(placed.get(track.track_id, track) for track in state.tracking.tracks)
    return replace(state, tracking=replace(state.tracking, tracks=tracks), rules=rules), matched


def _count(rule: Rule, state: RuleState, holds: bool, at: float, *, is_new: bool) -> tuple[RuleState, bool]:
    """For an area: its new state, and whether there is an event, apart from the cool-down."""
    longest = REARM_S if not holds or state.is_missed else MOST_GAP_S
    has_ceased = state.held_at is None or at - state.held_at > longest
    state = replace(state, is_told=state.is_told and not has_ceased)
    if not holds:
        return replace(state, frames=0, is_missed=True), False
    state = replace(state, frames=state.frames + is_new, held_at=at, is_missed=False)
    return state, not state.is_told and state.frames >= rule.frames


def _place(track: Track, zones: Iterable[Zone], at: float) -> Track:
    """Since when it has been in which area."""
    inside = {zone.name for zone in zones if not zone.is_line and zone.contains(track.anchor)}
    return replace(track, since={name: track.since.get(name, at) for name in ("", *inside)})


def _fits(rule: Rule, zone: Zone | None, one: Tracked, at: float) -> bool:
    seen = one.seen
    if (rule.label and seen.label != rule.label) or (rule.min_score and (seen.score or 0.0) < rule.min_score):
        return False
    if zone is not None and zone.is_line:
        return _find_direction(zone, one) in (
            (rule.direction,) if rule.direction is not Direction.ANY else tuple(Direction)
        )
    return rule.zone in one.track.since and at - one.track.since[rule.zone] >= rule.dwell_s


def _find_direction(zone: Zone, one: Tracked) -> Direction | None:
    return zone.crossed(one.before, one.seen.anchor) if one.before is not None else None


def _time_of(record: FrameRecord, *, by_pts: bool) -> float:
    """In seconds."""
    pts = record.row.get("pts")
    if by_pts and is_number(pts):
        return float(pts)
    return from_text(record.at).timestamp()


def size_of_row(row: Mapping[str, Any]) -> Size | None:
    """Of the source, as a row says it; None if it does not."""
    size = row.get("size")
    return _make_size(*size) if isinstance(size, list) and len(size) == 2 else None


def size_in(facts: Mapping[str, Any]) -> Size | None:
    """Of the source, as its runner says it for the policies; None if it does not."""
    return _make_size(facts.get("width"), facts.get("height"))


def _make_size(width: object, height: object) -> Size | None:
    if is_number(width) and is_number(height) and width >= 1 and height >= 1:
        return float(width), float(height)
    return None


def _count_crossings(matched: Matched, zone: Zone, record: FrameRecord) -> Crossings:
    number = Counter(_find_direction(zone, one) for one in matched.objects)
    return Crossings(matched.rule.name, record.n_loop, record.at, number[Direction.LEFT], number[Direction.RIGHT])


def _event_of(matched: Matched, zone: Zone | None, record: FrameRecord) -> RuleEvent:
    objects = [
        {
            "label": one.seen.label,
            "score": one.seen.score,
            "bbox": list(one.seen.box),
            "track": one.track.track_id,
            **({"direction": _find_direction(zone, one)} if zone is not None and zone.is_line else {}),
        }
        for one in matched.objects
    ]
    rule = matched.rule
    node, source = record.origin
    return RuleEvent(rule.name, record.n_loop, record.at, objects, rule.zone, node=node, source=source)
