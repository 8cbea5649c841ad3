"""One suite over both databases: rules of producers, and how far they are evaluated."""

from __future__ import annotations

import json

import sqlalchemy as sa

from app.bootstrap.accounts import MIGRATIONS
from app.kit.sql import Database, migrations
from app.results import store
from app.results.model.event import RuleCounts, RuleEvent
from app.results.model.rule import RULE_SET, Direction, Rule, RuleSet
from app.results.model.rule_evaluation import EvaluationState, RuleState
from app.results.model.track import TrackingState
from app.results.store import RuleEventFilter
from tests.harness.databases import database, empty, url

__all__ = ["database", "empty", "url"]
RULES = RuleSet(rules=(Rule("come", cooldown_s=300),))
STATE = EvaluationState(TrackingState(7.0, next_id=4), rules={"come": RuleState(held_at=7.0, told_at=5.0)})
AT = "2026-11-27T10:00:00.000Z"


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
    to_left, to_right = (
        {"label": 'a "direction": "left"', "direction": way} for way in (Direction.LEFT, Direction.RIGHT)
    )
    with database.write() as conn:
        for rule, objects in (("line", [to_left, to_left, to_right]), ("line", [to_left]), ("area", [{"label": "a"}])):
            store.add_rule_event(conn, "a", RuleEvent(rule, 1, AT, objects), AT)
        counts = store.count_rule_events(conn, "a", RuleEventFilter())
        assert counts == {"line": RuleCounts(2, left=3, right=1), "area": RuleCounts(1)}
        assert counts["line"].crossings == {"left": 3, "right": 1}
        assert counts["area"].crossings == {}
        assert store.count_rule_events(conn, "a", RuleEventFilter(until=AT)) == {}


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
