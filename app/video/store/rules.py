"""The rules of jobs, and what they remember. Runs in the caller's transactions."""

from __future__ import annotations

import json

import sqlalchemy as sa
from sqlalchemy import Connection

from app.kit.sql.upsert import upsert
from app.kit.text.json_text import json_text
from app.video.model.rule import RULE_SET, RuleSet
from app.video.model.rule_evaluation import EvaluationState
from app.video.store.tables import rules


def get_rules(conn: Connection, uid: str) -> tuple[RuleSet, EvaluationState] | None:
    """None where a job never had any."""
    row = conn.execute(sa.select(rules).where(rules.c.uid == uid)).first()
    if row is None:
        return None
    return RULE_SET.read(json.loads(row.rule_set)), EvaluationState.from_json(json.loads(row.state))


def put_rules(conn: Connection, uid: str, rule_set: RuleSet, state: EvaluationState) -> None:
    """Store a job's rules.

    Args:
        uid: of the job.
        state: from which judging goes on.
    """
    values = {"uid": uid, "rule_set": json_text(RULE_SET.write(rule_set)), "state": json_text(state.to_json())}
    upsert(conn, rules, values)


def put_rule_state(conn: Connection, uid: str, state: EvaluationState) -> None:
    conn.execute(sa.update(rules).where(rules.c.uid == uid).values(state=json_text(state.to_json())))
