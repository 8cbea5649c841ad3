"""Where rules hold in rows that arrive: also over several reports, over gaps, and under other rules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from app.kit.clock import to_text
from app.results.errors import BadRule
from app.results.model.event import RuleEvent
from app.results.model.frame_result import FrameRecord
from app.results.model.rule import MOST_RULES, RULE_SET, Direction, Rule, RuleSet, Zone, check_rules
from app.results.model.rule_evaluation import NO_BOXES, NO_SIZE, EvaluationState, evaluate
from app.results.model.schedule import Schedule, Weekday

SIZE = (1000.0, 500.0)
DOOR = Zone("door", ((0.5, 0.0), (1.0, 0.0), (1.0, 1.0), (0.5, 1.0)))
GATE = Zone("gate", ((0.5, 0.0), (0.5, 1.0)))
FAR, NEAR, IN = 100.0, 450.0, 700.0
"""Pixels from the left: of objects 100 wide, their middles."""
ZERO = datetime(2026, 11, 24, tzinfo=UTC).timestamp()


def row(
    n: int, *middles: float, label: str = "person", score: float = 0.9, at: float | None = None, **more: Any
) -> FrameRecord:
    """A row a second, unless `at` says otherwise."""
    boxes = [[middle - 50, 100, middle + 50, 300] for middle in middles]
    facts = {"n_loop": n, "bbox": boxes, "labels": [label] * len(boxes), "scores": [score] * len(boxes), **more}
    moment = datetime.fromtimestamp(ZERO + (n if at is None else at), UTC)
    return FrameRecord(n, to_text(moment), facts)


def judge(
    rule_set: RuleSet, *reports: Sequence[FrameRecord], size: tuple[float, float] | None = SIZE, by_pts: bool = False
) -> list[RuleEvent]:
    """Of several reports, between which the state is stored as JSON."""
    state, events = EvaluationState(), list[RuleEvent]()
    for records in reports:
        state, more, *_ = evaluate(rule_set, state, records, size=size, by_pts=by_pts)
        state = EvaluationState.from_json(json.loads(json.dumps(state.to_json())))
        events += more
    return events


def frames(rule: Rule, *reports: Sequence[FrameRecord], **more: Any) -> list[int]:
    """Numbers of the frames of the events."""
    return [event.n_loop for event in judge(RuleSet((DOOR, GATE), (rule,)), *reports, **more)]


def test_there_is_one_event_when_somebody_comes_and_another_when_they_come_again() -> None:
    rule = Rule("come", zone="door", cooldown_s=0)
    rows = [row(1, FAR), row(2, IN), row(3, IN), row(4, FAR), row(7, FAR), row(8, IN)]
    assert frames(rule, rows) == [2, 8]
    assert frames(rule, rows[:2], rows[2:5], rows[5:]) == [2, 8], "whatever reports the rows came in"


def test_what_is_missed_for_a_moment_has_not_gone() -> None:
    rows = [row(1, IN), row(2), row(3, IN), row(5), row(6), row(7, IN)]
    assert frames(Rule("come", cooldown_s=0), rows) == [1, 7]


def test_the_cool_down_holds_events_back_and_tells_of_what_lasts() -> None:
    rule = Rule("come", cooldown_s=20)
    assert frames(rule, [row(1, IN), row(5), row(9, IN), row(10, IN), row(11, IN)]) == [1]
    rows = [row(1, IN), row(5), *(row(n, IN) for n in range(9, 30))]
    assert frames(rule, rows) == [1, 21], "who came while it was cooling down and has stayed"


def test_outside_of_its_schedule_a_rule_makes_no_event_and_at_its_start_one_of_what_is_there() -> None:
    """The rows are of a Tuesday, from midnight in UTC."""
    rows = [row(n, IN, at=n * 30) for n in range(1, 8)]
    night = Schedule((Weekday.TUESDAY,), "00:02", "00:03")
    assert frames(Rule("a", zone="door", schedule=night), rows) == [4]
    assert frames(Rule("a", zone="door", schedule=Schedule((Weekday.MONDAY,), "08:00", "18:00")), rows) == []
    steps = [row(n, NEAR + (n % 2) * 100, at=n * 60) for n in range(1, 5)]
    over = Rule("over", zone="gate", cooldown_s=0, schedule=night)
    assert frames(Rule("over", zone="gate", cooldown_s=0), steps) == [2, 3, 4]
    assert frames(over, steps) == [2]


def test_class_score_and_number_count() -> None:
    rows = [row(1, IN), row(2, IN, score=0.4), row(6, FAR, IN, label="car"), row(10, FAR, IN, score=0.5)]
    assert frames(Rule("car", label="car", cooldown_s=0), rows) == [6]
    assert frames(Rule("sure", min_score=0.6, cooldown_s=0), rows) == [1, 6]
    assert frames(Rule("two", at_least=2, label="person", cooldown_s=0), rows) == [10]


def test_a_number_of_processed_frames_may_be_asked_for() -> None:
    rule = Rule("sure", frames=3)
    assert frames(rule, [row(1, IN), row(2, IN, tracked=True), row(3, IN), row(4, IN, tracked=True), row(5, IN)]) == [5]
    assert frames(rule, [row(1, IN), row(2, IN), row(3), row(4, IN), row(5, IN)]) == []


def test_who_stays_is_told_from_those_who_pass() -> None:
    rule = Rule("loiter", zone="door", dwell_s=5, cooldown_s=0)
    assert frames(rule, [row(n, IN) for n in range(1, 10)]) == [6]
    passing = [row(n, IN if n % 6 < 3 else FAR) for n in range(1, 30)]
    assert frames(rule, passing) == []
    one_after_the_other = [row(n, (550, 760, 970)[n % 3]) for n in range(1, 30)]
    assert frames(rule, one_after_the_other) == [], "each is somebody else"


def test_a_line_is_crossed_by_an_object_and_not_by_two() -> None:
    there = [row(1, 430), row(2, 480), row(3, 530), row(4, 580)]
    back = [row(5, 520), row(6, 460)]
    assert frames(Rule("gate", zone="gate", cooldown_s=0), there, back) == [3, 6]
    assert frames(Rule("gate", zone="gate", direction=Direction.LEFT, cooldown_s=0), there, back) == [3]
    assert frames(Rule("gate", zone="gate", direction=Direction.RIGHT, cooldown_s=0), there, back) == [6]
    assert frames(Rule("gate", zone="gate", label="car"), there, back) == []
    assert frames(Rule("gate", zone="gate"), [row(1, FAR), row(2, 900)]) == [], "too far for one and the same"
    (event,) = judge(RuleSet((GATE,), (Rule("gate", zone="gate", cooldown_s=60),)), there, back)
    assert event.objects[0]["direction"] == "left"
    assert event.text == "person crossed gate to the left"


def test_crossings_are_counted_also_during_a_cool_down_and_not_outside_of_the_schedule() -> None:
    rows = [row(n, 480 + (n % 2) * 40, at=n * 30) for n in range(1, 8)]
    first_minutes = Schedule((Weekday.TUESDAY,), "00:00", "00:03")
    rules = (Rule("gate", zone="gate", cooldown_s=3600), Rule("left", zone="gate", direction=Direction.LEFT))
    rule_set = RuleSet((GATE,), (*rules, Rule("early", zone="gate", schedule=first_minutes)))
    evaluation = evaluate(rule_set, EvaluationState(), rows, size=SIZE, by_pts=False)
    assert [(event.rule, event.n_loop) for event in evaluation.events if event.rule == "gate"] == [("gate", 2)]
    counted = {
        name: [(one.n_loop, one.to_left, one.to_right) for one in evaluation.crossings if one.rule == name]
        for name in ("gate", "left", "early")
    }
    assert counted["gate"] == [(n, n % 2, 1 - n % 2) for n in range(2, 8)]
    assert counted["left"] == [(n, 1, 0) for n in (3, 5, 7)]
    assert counted["early"] == [(n, n % 2, 1 - n % 2) for n in range(2, 6)]


def test_two_who_cross_in_one_frame_are_one_event_and_two_frames_at_a_time_two() -> None:
    rule_set = RuleSet((GATE,), (Rule("gate", zone="gate", cooldown_s=0),))
    (event,) = judge(rule_set, [row(1, 490, 450), row(2, 560, 510)])
    assert [one["direction"] for one in event.objects] == ["left", "left"]
    assert frames(rule_set.rules[0], [row(1, 480), row(2, 520, at=5), row(3, 480, at=5)]) == [2, 3]


def test_who_goes_on_as_before_is_followed_further_than_their_own_size() -> None:
    rule = Rule("gate", zone="gate", cooldown_s=0)
    assert frames(rule, [row(1, 100), row(2, 250), row(4, 550)]) == [4]
    assert frames(rule, [row(2, 250), row(4, 550)]) == [], "nobody knows where they were going"
    assert frames(rule, [row(1, 100), row(2, 250), row(4, 250), row(5, 300)]) == [], "they may also stop"


def test_of_two_that_pass_each_other_each_keeps_its_id_by_its_size() -> None:
    def passing(n: int, small: float, large: float) -> FrameRecord:
        boxes = [[small - 20, 220, small + 20, 300], [large - 40, 140, large + 40, 300]]
        return FrameRecord(n, row(n).at, {"n_loop": n, "bbox": boxes, "labels": ["person"] * 2, "scores": [0.9] * 2})

    rows = [passing(1, 300, 340), passing(2, 330, 310)]
    _, _, records, _ = evaluate(RuleSet(), EvaluationState(), rows, size=SIZE, by_pts=False)
    assert [record.row["ids"] for record in records] == [[1, 2], [1, 2]]


def test_each_object_has_an_id_of_its_own_in_the_job() -> None:
    rules = RuleSet((GATE, DOOR), (Rule("gate", zone="gate", cooldown_s=0), Rule("come", zone="door", cooldown_s=0)))
    there, back = [row(1, 200, 430), row(2, 200, 530)], [row(3, 200, 430)]
    assert [(event.rule, [one["track"] for one in event.objects]) for event in judge(rules, there, back)] == [
        ("gate", [2]),
        ("come", [2]),
        ("gate", [2]),
    ]
    later = [row(3, 200), row(9, 200, IN), row(1, IN, at=0)]
    ids = [event.objects[0]["track"] for event in judge(rules, there, later) if event.rule == "come"]
    assert ids == [2, 3, 4], "who was away has another, and so has everybody under another clock"


def test_what_an_older_version_remembers_of_rules_is_kept_and_its_objects_are_new() -> None:
    rules = RuleSet((), (Rule("come"),))
    state, (event,), *_ = evaluate(rules, EvaluationState(), [row(1, IN)], size=SIZE, by_pts=False)
    older = {name: value for name, value in state.to_json().items() if name != "next_track"}
    older["tracks"] = [["person", [0.7, 0.6], [0.2, 0.4], ZERO, {"": ZERO}]]
    state, events, *_ = evaluate(rules, EvaluationState.from_json(older), [row(2, IN)], size=SIZE, by_pts=False)
    assert (events, [track.track_id for track in state.tracking.tracks]) == ([], [1])
    assert event.objects[0]["track"] == 1


def test_each_row_gets_the_ids_of_its_objects_also_without_rules_and_over_other_zones() -> None:
    state, _, records, _ = evaluate(
        RuleSet(), EvaluationState(), [row(1, FAR, IN), row(2, IN)], size=SIZE, by_pts=False
    )
    assert [record.row["ids"] for record in records] == [[1, 2], [2]]
    after = RuleSet((DOOR,), (Rule("come", zone="door"),))
    state = state.following(RuleSet(), after)
    odd = row(3, IN, ids=[99], bbox=["x", [650, 100, 750, 300]], labels=["", "person"])
    state, events, records, _ = evaluate(after, state, [odd, row(4)], size=SIZE, by_pts=False)
    assert [record.row.get("ids") for record in records] == [[None, 2], None]
    assert [event.objects[0]["track"] for event in events] == [2]
    assert [one.details() for one in records[0].objects] == [{"id": 2}]


def test_an_object_has_not_been_in_an_area_that_was_moved() -> None:
    rules = RuleSet((DOOR,), (Rule("loiter", zone="door", dwell_s=5, cooldown_s=0),))
    state, *_ = evaluate(rules, EvaluationState(), [row(1, IN)], size=SIZE, by_pts=False)
    moved = rules.with_zone(Zone("door", ((0.4, 0.0), *DOOR.points[1:])))
    _, events, *_ = evaluate(moved, state.following(rules, moved), [row(6, IN), row(11, IN)], size=SIZE, by_pts=False)
    assert [event.n_loop for event in events] == [11]


def test_slow_rows_are_no_gaps_and_long_gaps_are() -> None:
    rule = Rule("come", cooldown_s=0)
    assert frames(rule, [row(n, IN, at=10 * n) for n in range(1, 9)]) == [1]
    assert frames(rule, [row(1, IN), row(2, IN, at=200)]) == [1, 2]


def test_the_size_is_that_of_the_row_before_that_of_the_source() -> None:
    rule = Rule("come", zone="door")
    assert frames(rule, [row(1, IN, size=[2000, 500])]) == [], "its middle is left of the door then"
    assert frames(rule, [row(1, IN, size=[1000, 500])], size=None) == [1]


def test_it_says_why_no_rule_can_hold() -> None:
    rule_set = RuleSet((), (Rule("come"),))
    state, *_ = evaluate(rule_set, EvaluationState(), [row(1, IN)], size=None, by_pts=False)
    assert state.problem == NO_SIZE
    state, *_ = evaluate(rule_set, state, [FrameRecord(2, row(2).at, {"total": 3})], size=SIZE, by_pts=False)
    assert state.problem == NO_BOXES
    state, events, *_ = evaluate(rule_set, state, [row(3, IN)], size=SIZE, by_pts=False)
    assert (state.problem, len(events)) == ("", 1)


def test_a_file_that_is_read_faster_is_judged_by_its_own_time() -> None:
    rule = Rule("loiter", dwell_s=5)
    rows = [row(n, IN, at=n / 100, pts=float(n)) for n in range(1, 10)]
    assert frames(rule, rows, by_pts=True) == [6]
    assert frames(rule, rows) == []
    again = [row(n, IN, at=n / 100, pts=float(n)) for n in range(1, 10)]
    assert frames(rule, rows, again, by_pts=True) == [6, 6], "from its beginning again"


def test_rules_that_stay_keep_their_cool_down_and_others_begin_anew() -> None:
    before = RuleSet((DOOR, GATE), (Rule("come", zone="door"), Rule("all")))
    state, events, *_ = evaluate(before, EvaluationState(), [row(1, IN)], size=SIZE, by_pts=False)
    assert [event.rule for event in events] == ["come", "all"]
    moved = Zone("door", ((0.4, 0.0), *DOOR.points[1:]))
    after = before.with_zone(moved)
    _, events, *_ = evaluate(after, state.following(before, after), [row(9, IN)], size=SIZE, by_pts=False)
    assert [event.rule for event in events] == ["come"], "its zone is another one"


def test_whatever_a_row_holds_is_no_reason_to_fail() -> None:
    broken: list[Any] = [5, "x", [[1, 2]], [[1, 2, 3, "a"]], [[10**400] * 4], [None], {"a": 1}]
    records = [FrameRecord(n, row(n).at, {"bbox": boxes, "labels": 7, "pts": "x"}) for n, boxes in enumerate(broken)]
    assert judge(RuleSet((), (Rule("come"),)), records, by_pts=True) == []


@pytest.mark.parametrize(
    ("rule_set", "problem"),
    [
        (RuleSet((), (Rule("a", zone="door"),)), "no zone 'door'"),
        (RuleSet((DOOR, DOOR)), "'door' is there twice"),
        (RuleSet((), (Rule("a"), Rule("a"))), "'a' is there twice"),
        (RuleSet((GATE,), (Rule("a", zone="gate", dwell_s=2),)), "a line"),
        (RuleSet((GATE,), (Rule("a", zone="gate", at_least=2),)), "a line"),
        (RuleSet((DOOR,), (Rule("a", zone="door", direction=Direction.LEFT),)), "only a line"),
        (RuleSet((Zone("dot", ((0.5, 0.5), (0.5, 0.5))),)), "a point twice"),
        (RuleSet((), tuple(Rule(f"r{n}") for n in range(MOST_RULES + 1))), "at most"),
    ],
)
def test_what_does_not_fit_together_is_refused(rule_set: RuleSet, problem: str) -> None:
    with pytest.raises(BadRule, match=problem):
        check_rules(rule_set)


def test_rules_are_stored_as_they_were() -> None:
    rule_set = RuleSet((DOOR, GATE), (Rule("gate", zone="gate", direction=Direction.LEFT), Rule("b", dwell_s=1.5)))
    assert RULE_SET.read(json.loads(json.dumps(RULE_SET.write(rule_set)))) == rule_set


def test_ids_that_a_row_has_are_kept_and_its_objects_followed_by_them() -> None:
    rules = RuleSet((GATE,), (Rule("gate", zone="gate", cooldown_s=0),))
    rows = [row(1, FAR, ids=[7]), row(2, 900, FAR, ids=[7, 9]), row(3, FAR)]
    state, (event,), records, _ = evaluate(rules, EvaluationState(), rows, size=SIZE, by_pts=False)
    assert [record.row["ids"] for record in records] == [[7], [7, 9], [9]], "the last row is of an older node"
    assert [one["track"] for one in event.objects] == [7], "further away than an object without an id is followed"
    _, _, (record,), _ = evaluate(rules, state, [row(4, FAR, 500)], size=SIZE, by_pts=False)
    assert record.row["ids"] == [9, 10], "new objects have ids above all that were there"


@pytest.mark.parametrize("ids", [[7], [7, 7], [7, None], [7, True], [7, 0], [7, 1 << 60], [7, "8"], "78"])
def test_ids_that_cannot_be_those_of_a_tracker_are_replaced(ids: Any) -> None:
    _, _, (record,), _ = evaluate(RuleSet(), EvaluationState(), [row(1, FAR, IN, ids=ids)], size=SIZE, by_pts=False)
    assert record.row["ids"] == [1, 2]
