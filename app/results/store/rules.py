"""Rules of producers, and how far they are evaluated. Runs in the caller's transactions."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.sql.rows import upsert
from app.kit.text.plain_text import json_text
from app.results.model.rule import RULE_SET, RuleSet
from app.results.model.rule_evaluation import EvaluationState, Origin
from app.results.store.tables import rule_states, rules


def get_rules(conn: Connection, uid: str) -> RuleSet | None:
    """None if a producer never had any."""
    text = conn.execute(sa.select(rules.c.rule_set).where(rules.c.uid == uid)).scalar()
    return RULE_SET.read(json.loads(text)) if text is not None else None


def put_rules(conn: Connection, uid: str, rule_set: RuleSet) -> None:
    upsert(conn, rules, {"uid": uid, "rule_set": json_text(RULE_SET.write(rule_set))})


def rule_states_of(conn: Connection, uid: str) -> dict[Origin, EvaluationState]:
    rows = conn.execute(sa.select(rule_states).where(rule_states.c.uid == uid))
    return {(row.node, row.source): _state_of(row) for row in rows}


def rule_state_of(conn: Connection, uid: str, origin: Origin) -> EvaluationState:
    """Of rows of this origin; that of the beginning if there were none yet."""
    node, source = origin
    c = rule_states.c
    row = conn.execute(sa.select(rule_states).where(c.uid == uid, c.node == node, c.source == source)).first()
    return _state_of(row) if row is not None else EvaluationState()


def put_rule_state(conn: Connection, uid: str, origin: Origin, state: EvaluationState) -> None:
    """Store how far the rows of an origin are evaluated.

    Args:
        uid: of the producer.
        state: from which judging goes on.
    """
    node, source = origin
    upsert(conn, rule_states, {"uid": uid, "node": node, "source": source, "state": json_text(state.to_json())})


def _state_of(row: Row[Any]) -> EvaluationState:
    return EvaluationState.from_json(json.loads(row.state))
