"""Rules of a producer: what of its detections makes an event, where in its picture, and when. Pure.

Places are in relative coordinates: 0, 0 is the upper left corner, 1, 1 the lower right one, so that a zone stays where
it is when the size of the picture changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.kit.text.json_form import JsonForm
from app.results.errors import BadRule
from app.results.model.schedule import Schedule

Point = tuple[float, float]
LINE = 2
"""Points of a line; an area has more."""


class Direction(StrEnum):
    """Direction in which a line is crossed, seen from its first point towards its second."""

    ANY = "any"
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Zone:
    """A named line or area in the picture."""

    name: str
    points: tuple[Point, ...]
    """Two for a line, the corners of an area."""

    @property
    def is_line(self) -> bool:
        return len(self.points) == LINE

    def contains(self, point: Point) -> bool:
        """Whether the point is in this area, by the even-odd rule. One on its edge may be either."""
        x, y = point
        is_inside = False
        for (x1, y1), (x2, y2) in zip(self.points, self.points[1:] + self.points[:1], strict=True):
            if (y1 > y) != (y2 > y) and x < x1 + (y - y1) * (x2 - x1) / (y2 - y1):
                is_inside = not is_inside
        return is_inside

    def crossed(self, before: Point, after: Point) -> Direction | None:
        """In which direction the path from one point to the other crosses this line; None: it does not."""
        begin, end = self.points
        side_before, side_after = _find_side(begin, end, before), _find_side(begin, end, after)
        if (side_before < 0) == (side_after < 0) or _find_side(before, after, begin) * _find_side(
            before, after, end
        ) > 0:
            return None
        return Direction.RIGHT if side_before < 0 else Direction.LEFT


def _find_side(begin: Point, end: Point, point: Point) -> float:
    """Above 0: to the right, looking from start to end (y grows downwards); below: to the left."""
    return (end[0] - begin[0]) * (point[1] - begin[1]) - (end[1] - begin[1]) * (point[0] - begin[0])


MOST_ZONES = 20
MOST_RULES = 20
LEAST_POINTS, MOST_POINTS = 2, 32


@dataclass(frozen=True)
class Rule:
    """With a line as its zone: an object crosses it. Otherwise: at least this many objects are there at once."""

    name: str
    zone: str = ""
    """Name of one of its zones; empty: the whole picture."""
    node: str = ""
    """Only what this node has answered; empty: any."""
    source: str = ""
    """Only what comes from this source; empty: any."""
    label: str = ""
    """Only this class; empty: any."""
    min_score: float = 0.0
    """Lower scores do not count; 0: scores are ignored."""
    at_least: int = 1
    """Objects at once."""
    direction: Direction = Direction.ANY
    """For a line."""
    dwell_s: float = 0.0
    """How long each of them has been there, in seconds."""
    frames: int = 1
    """Number of consecutive processed frames in which it holds."""
    cooldown_s: float = 60.0
    """Minimum time until the next event, in seconds."""
    schedule: Schedule | None = None
    """When there are events; None: always."""

    def covers(self, node: str, source: str) -> bool:
        """Whether it applies to what comes from there."""
        return self.node in ("", node) and self.source in ("", source)


@dataclass(frozen=True)
class RuleSet:
    """All rules of a producer, with the zones that they name."""

    zones: tuple[Zone, ...] = ()
    rules: tuple[Rule, ...] = ()

    def zone_of(self, rule: Rule) -> Zone | None:
        """None: the whole picture."""
        return next((zone for zone in self.zones if zone.name == rule.zone), None) if rule.zone else None

    def of(self, node: str, source: str) -> RuleSet:
        """Without the rules that do not apply to what comes from there."""
        return RuleSet(self.zones, tuple(rule for rule in self.rules if rule.covers(node, source)))

    def with_zone(self, zone: Zone) -> RuleSet:
        """Replaces one of the same name."""
        return RuleSet((*(one for one in self.zones if one.name != zone.name), zone), self.rules)

    def without_zone(self, name: str) -> RuleSet:
        """Returns the rules and zones without this zone.

        Raises:
            BadRule: A rule names it.
        """
        using = [rule.name for rule in self.rules if rule.zone == name]
        if using:
            hint = "Remove or change these rules first."
            raise BadRule(f"{name} is used by {', '.join(using)}.", hint=hint, detail={"place": f"zones.{name}"})
        return RuleSet(tuple(one for one in self.zones if one.name != name), self.rules)

    def with_rule(self, rule: Rule) -> RuleSet:
        """Replaces one of the same name."""
        return RuleSet(self.zones, (*(one for one in self.rules if one.name != rule.name), rule))

    def without_rule(self, name: str) -> RuleSet:
        return RuleSet(self.zones, tuple(one for one in self.rules if one.name != name))


RULE_SET = JsonForm(RuleSet)


def check_rules(rule_set: RuleSet) -> None:
    """Checks zones and rules, and that they match.

    Raises:
        BadRule: The first problem.
    """
    _check_number(rule_set.zones, MOST_ZONES, "zones")
    _check_number(rule_set.rules, MOST_RULES, "rules")
    _check_names("zones", (zone.name for zone in rule_set.zones))
    _check_names("rules", (rule.name for rule in rule_set.rules))
    for zone in rule_set.zones:
        if len(set(zone.points)) < len(zone.points) or len(zone.points) < LEAST_POINTS:
            raise _make_problem(
                f"zones.{zone.name}", "has a point twice, or fewer than two", "A line has 2, an area 3."
            )
    for rule in rule_set.rules:
        _check_rule(rule, rule_set)


def _check_rule(rule: Rule, rule_set: RuleSet) -> None:
    place, zone = f"rules.{rule.name}", rule_set.zone_of(rule)
    if rule.zone and zone is None:
        known = ", ".join(one.name for one in rule_set.zones) or "none"
        raise _make_problem(place, f"there is no zone {rule.zone!r}", f"Its zones: {known}.")
    if zone is not None and zone.is_line:
        if rule.dwell_s or rule.at_least > 1 or rule.frames > 1:
            hint = "Leave dwell_s, at_least and frames out, or take an area."
            raise _make_problem(place, f"{zone.name} is a line: an object crosses it, and does not stay on it", hint)
    elif rule.direction is not Direction.ANY:
        raise _make_problem(place, "only a line is crossed in a direction", "Leave direction out, or take a line.")
    if rule.schedule is not None and rule.schedule.problem:
        raise _make_problem(f"{place}.schedule", rule.schedule.problem, "Give days, start, end and timezone.")


def _check_number(things: Sequence[object], most: int, place: str) -> None:
    if len(things) > most:
        raise _make_problem(place, f"are {len(things)}; there are at most {most}", "Remove one.")


def _check_names(place: str, names: Iterable[str]) -> None:
    double = [name for name, times in Counter(names).items() if times > 1]
    if double:
        raise _make_problem(place, f"the name {double[0]!r} is there twice", "Each has a name of its own.")


def _make_problem(place: str, problem: str, hint: str) -> BadRule:
    return BadRule(f"{place}: {problem}", hint=hint, detail={"place": place})
