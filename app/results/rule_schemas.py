"""Rules, zones and events of a producer as the JSON API takes and gives them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, field_validator

from app.kit.clock import to_text
from app.kit.text.json_values import JsonObject
from app.kit.web.described_type import DescribedType
from app.kit.web.strict import TEXT, Moment, Strict, empty_as_none
from app.results.model.event import EventObject, RuleEvent
from app.results.model.producer import Producer
from app.results.model.rule import (
    LEAST_POINTS,
    MOST_POINTS,
    MOST_RULES,
    MOST_ZONES,
    RULE_SET,
    Direction,
    Rule,
    RuleSet,
    Zone,
)
from app.results.model.schedule import TIME_OF_DAY, WEEK, Schedule, Weekday
from app.results.service import ProducerRules, RuleEventPage
from app.results.store import RuleEventFilter

Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=86_400)]
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
Name = Annotated[str, Field(pattern=NAME)]
Origin = Annotated[str, Field(max_length=63, pattern=TEXT)]
TimeOfDay = Annotated[str, Field(pattern=TIME_OF_DAY)]


class ZoneBody(Strict):
    """A line (two points) or an area (its corners)."""

    name: Name
    points: Annotated[
        list[Annotated[list[Share], Field(min_length=2, max_length=2)]],
        Field(min_length=LEAST_POINTS, max_length=MOST_POINTS),
    ]
    """[x, y] each, relative to the picture: 0, 0 is its upper left corner, 1, 1 the lower right one."""

    def zone(self) -> Zone:
        return Zone(self.name, tuple((x, y) for x, y in self.points))


class ScheduleBody(Strict):
    """When a rule is active. A period that ends before it starts ends on the next day."""

    days: Annotated[list[Weekday], Field(min_length=1, max_length=7)] = Field(default_factory=lambda: list(WEEK))
    """Days on which the period starts."""
    start: TimeOfDay = "00:00"
    """Start of the period, such as 22:30."""
    end: TimeOfDay = "00:00"
    """End of the period, excluded; the same as the start: 24 hours later."""
    timezone: Annotated[str, Field(min_length=1, max_length=64, pattern=TEXT)] = "UTC"
    """IANA time zone, such as Europe/Berlin."""

    def schedule(self) -> Schedule:
        return Schedule(tuple(day for day in WEEK if day in self.days), self.start, self.end, self.timezone)


class RuleBody(Strict):
    """The condition for an event: an object crosses the line, or objects are in the area."""

    name: Name
    zone: Annotated[str, Field(pattern=f"{NAME}|^$")] = ""
    """Name of a zone; empty: the whole picture."""
    node: Origin = ""
    """For a service on several nodes: the node whose answers count; empty: any."""
    source: Origin = ""
    """For a service with several sources: the source whose pictures count; empty: any."""
    label: Annotated[str, Field(max_length=100, pattern=TEXT)] = ""
    """Class of the objects; empty: any class."""
    min_score: Share = 0.0
    """Lowest score of the objects, 0 to 1."""
    at_least: Annotated[int, Field(ge=1, le=60)] = 1
    """Lowest number of objects at the same time; not with a line."""
    direction: Direction = Direction.ANY
    """Direction in which the line is crossed, seen from its first point towards its second."""
    dwell_s: Seconds = 0.0
    """Seconds that each object has been there; not with a line."""
    frames: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of consecutive processed frames in which it must hold; not with a line."""
    cooldown_s: Seconds = 60.0
    """Seconds after an event during which there is no further one."""
    schedule: ScheduleBody | None = None
    """When the rule is active; null: always."""

    def rule(self) -> Rule:
        schedule = self.schedule.schedule() if self.schedule else None
        return Rule(**{**self.model_dump(exclude={"schedule"}), "schedule": schedule})


class RulesBody(Strict):
    """All zones and rules of a producer."""

    zones: Annotated[list[ZoneBody], Field(max_length=MOST_ZONES)] = Field(default_factory=list)
    rules: Annotated[list[RuleBody], Field(max_length=MOST_RULES)] = Field(default_factory=list)

    def rule_set(self) -> RuleSet:
        return RuleSet(tuple(one.zone() for one in self.zones), tuple(one.rule() for one in self.rules))


class RulesAnswer(BaseModel):
    zones: list[ZoneBody]
    rules: list[RuleBody]
    problem: Literal["", "no_boxes", "no_size"]
    """Why no rule can hold now: its rows have no boxes; the size of the source is not known."""


class RuleEventQuery(Strict):
    """Which events of a producer."""

    rule: Annotated[str, Field(max_length=64, pattern=TEXT)] = ""
    since: Moment | None = None
    """Detected at this time or later, with its offset from UTC."""
    until: Moment | None = None
    """Detected before this time."""
    order: Literal["asc", "desc"] = "desc"
    """asc: the oldest first, to follow them: the last event_id is the next cursor."""
    cursor: Annotated[int, Field(ge=0, le=(1 << 31) - 1)] | None = None
    """event_id of the last one seen."""
    limit: Annotated[int, Field(ge=1, le=500)] = 50

    _empty_as_none = field_validator("since", "until", "cursor", mode="before")(empty_as_none)

    def chosen(self) -> RuleEventFilter:
        since, until = (to_text(moment) if moment else None for moment in (self.since, self.until))
        return RuleEventFilter(self.rule, since, until)


class RuleEventAnswer(BaseModel):
    event_id: int
    rule: str
    zone: str
    n_loop: int
    """Number of the frame."""
    at: str
    """When it was answered, by the node's clock."""
    stored_at: str
    """When the web server stored it, by its own clock, which counts for how long it is kept."""
    objects: Annotated[list[JsonObject], DescribedType(list[EventObject])]
    text: str
    """What was seen, in a line."""
    node: str
    """Of a service on many nodes: the one that answered the frame."""
    source: str
    """Of a service with many sources: the one of the frame."""
    picture_at: str | None
    """When the picture came that is kept of it; null: there is none."""
    links: dict[str, str]


class RuleEventsAnswer(BaseModel):
    events: list[RuleEventAnswer]
    next_cursor: int | None
    counts: dict[str, int]
    """The number of events of this time, by rule."""
    crossings: dict[str, dict[Direction, int]]
    """The number of objects that have crossed a line in this time, by rule and direction, also during a cool-down; two
    in the same frame are one event."""


def rules_answer(rules: ProducerRules) -> RulesAnswer:
    return RulesAnswer.model_validate({**RULE_SET.write(rules.rule_set), "problem": rules.problem})


def rule_events_answer(producer: Producer, page: RuleEventPage) -> RuleEventsAnswer:
    events = [_describe_event(producer, event) for event in page.events]
    counts = {rule: count.events for rule, count in page.counts.items()}
    crossings = {rule: count.crossings for rule, count in page.counts.items() if count.crossings}
    return RuleEventsAnswer(events=events, next_cursor=page.cursor, counts=counts, crossings=crossings)


def _describe_event(producer: Producer, event: RuleEvent) -> RuleEventAnswer:
    place = f"{producer.place}/rule-events/{event.event_id}"
    links = {"picture": f"{place}/picture"} if event.picture_at else {}
    links |= {"clip": f"{place}/clip"} if producer.is_recorded else {}
    objects = [dict(one) for one in event.objects]
    return RuleEventAnswer(**{**vars(event), "objects": objects}, text=event.text, links=links)
