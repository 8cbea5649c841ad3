"""One suite over both databases: rules of producers, and how far they are evaluated."""

from __future__ import annotations

import json

import sqlalchemy as sa

from app.bootstrap.accounts import MIGRATIONS
from app.kit.sql import Database, migrations
from app.results import store
from app.results.model.event import Crossings, RuleCounts, RuleEvent
from app.results.model.frame_result import FrameRecord, ResultFilter
from app.results.model.rule import RULE_SET, Direction, Rule, RuleSet
from app.results.model.rule_evaluation import EvaluationState, RuleState
from app.results.model.track import TrackingState
from app.results.store import RuleEventFilter
from tests.harness.databases import database, empty, url

__all__ = ["database", "empty", "url"]
RULES = RuleSet(rules=(Rule("come", cooldown_s=300),))
STATE = EvaluationState(TrackingState(7.0, next_id=4), rules={"come": RuleState(held_at=7.0, told_at=5.0)})
AT, LATER = "2026-11-27T10:00:00.000Z", "2026-11-27T10:05:00.000Z"


def test_states_are_of_an_origin_and_go_with_the_producer(database: Database) -> None:
    with database.write() as conn:
        store.put_rules(conn, "a", RULES)
        for origin, at in ((("n", "x"), 1.0), (("n", "y"), 2.0), (("n", "x"), 3.0)):
            store.put_rule_state(conn, "a", origin, EvaluationState(TrackingState(at)))
        event = store.add_rule_event(conn, "a", RuleEvent("come", 1, AT, [], node="n", source="x"), AT)
    with database.write() as conn:
        assert store.get_rules(conn, "a") == RULES
        assert {origin: state.tracking.at for origin, state in store.rule_states_of(conn, "a").items()} == {
            ("n", "x"): 3.0,
            ("n", "y"): 2.0,
        }
        assert store.rule_state_of(conn, "a", ("m", "")) == EvaluationState()
        since = {"stored_since": AT, "since": AT, "limit": 9}
        assert store.events_without_picture(conn, "a", node="n", source="y", **since) == []
        assert store.events_without_picture(conn, "a", node="n", source="x", **since) == [event]
        store.forget_producers(conn, ["a"])
        assert store.get_rules(conn, "a") is None
        assert store.rule_states_of(conn, "a") == {}
        assert store.rule_events_of(conn, "a", RuleEventFilter(), limit=9) == []


def test_events_and_the_objects_that_crossed_are_counted(database: Database) -> None:
    with database.write() as conn:
        for rule in ("line", "line", "area"):
            store.add_rule_event(conn, "a", RuleEvent(rule, 1, AT, []), AT)
        crossings = [Crossings("line", 1, AT, 2, 1), Crossings("line", 2, AT, 1, 0), Crossings("quiet", 2, LATER, 0, 4)]
        store.add_crossings(conn, "a", crossings[:2], AT)
        store.add_crossings(conn, "a", crossings[2:], LATER)
        store.add_crossings(conn, "b", [Crossings("line", 1, AT, 7, 7)], AT)
        counts = store.count_by_rule(conn, "a", RuleEventFilter())
        assert counts == {
            "line": RuleCounts(2, left=3, right=1),
            "area": RuleCounts(1),
            "quiet": RuleCounts(0, left=0, right=4),
        }
        assert counts["line"].crossings == {"left": 3, "right": 1}
        assert counts["area"].crossings == {}
        assert store.count_by_rule(conn, "a", RuleEventFilter(until=AT)) == {}
        assert store.count_by_rule(conn, "a", RuleEventFilter(rule="line", since=LATER)) == {}
        store.forget_rows_before(conn, LATER)
        assert store.count_by_rule(conn, "a", RuleEventFilter())["line"] == RuleCounts(2)
        store.add_rows(conn, "a", [FrameRecord(n, LATER, {}) for n in (2, 3)], LATER)
        store.trim_rows(conn, "a", 1)
        assert "quiet" not in store.count_by_rule(conn, "a", RuleEventFilter())
        store.forget_producers(conn, ["b"])
        assert store.count_by_rule(conn, "b", RuleEventFilter()) == {}


def test_crossings_in_events_of_before_the_migration_are_counted(empty: Database) -> None:
    migrations.move(empty, MIGRATIONS, "0042")
    objects = [{"label": 'a "direction": "left"', "direction": way} for way in (*[Direction.LEFT] * 2, Direction.RIGHT)]
    with empty.write() as conn:
        for rule, seen in (("line", objects), ("area", [{"label": "a"}])):
            store.add_rule_event(conn, "a", RuleEvent(rule, 1, AT, seen), AT)
    migrations.upgrade(empty, MIGRATIONS)
    with empty.read() as conn:
        counts = store.count_by_rule(conn, "a", RuleEventFilter())
    assert counts == {"line": RuleCounts(1, left=2, right=1), "area": RuleCounts(1)}


def test_rows_of_before_the_migration_are_kept_by_their_own_time_unless_that_is_to_come(empty: Database) -> None:
    migrations.move(empty, MIGRATIONS, "0044")
    former = sa.table("result_rows", *map(sa.column, ("uid", "n_loop", "at", "labels", "row")))
    times = (AT, "2999-01-01T00:00:00.000Z")
    with empty.write() as conn:
        for n_loop, at in enumerate(times, 1):
            conn.execute(sa.insert(former).values(uid="a", n_loop=n_loop, at=at, labels="", row="{}"))
    migrations.upgrade(empty, MIGRATIONS)
    with empty.read() as conn:
        rows = store.rows_of(conn, "a", ResultFilter(), limit=9)
    assert [one.at for one in rows] == list(times)
    assert rows[0].stored_at == AT and AT < rows[1].stored_at < times[1]
    migrations.move(empty, MIGRATIONS, "0044")


def test_rules_of_video_jobs_keep_their_state_over_the_migration_and_back(empty: Database) -> None:
    migrations.move(empty, MIGRATIONS, "0036")
    former = sa.table("video_rules", *(sa.column(name) for name in ("uid", "rule_set", "state")))
    texts = {"rule_set": json.dumps(RULE_SET.write(RULES)), "state": json.dumps(STATE.to_json())}
    with empty.write() as conn:
        conn.execute(sa.insert(former).values(uid="a", **texts))
    migrations.upgrade(empty, MIGRATIONS)
    with empty.write() as conn:
        assert store.get_rules(conn, "a") == RULES
        assert store.rule_state_of(conn, "a", ("", "")) == STATE
        store.put_rules(conn, "b", RULES)  # without a row yet
        store.put_rule_state(conn, "a", ("n", "x"), EvaluationState(TrackingState(1.0)))
    migrations.move(empty, MIGRATIONS, "0036")
    with empty.read() as conn:
        states = {row.uid: EvaluationState.from_json(json.loads(row.state)) for row in conn.execute(sa.select(former))}
    assert states == {"a": STATE, "b": EvaluationState()}
