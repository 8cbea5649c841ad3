"""The catalogue of stages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from app.kit.access import EVERYBODY, AccessRule, read_allowed
from app.video.model.kinds import Stage, StageSpec
from app.video.store.rows import as_text
from app.video.store.tables import stages


@dataclass(frozen=True)
class StoredStage:
    """owner: whose models it has. allowed: who may use it."""

    owner: str
    created_at: str
    spec: StageSpec
    stage: Stage
    allowed: AccessRule = EVERYBODY


def put_stage(conn: Connection, listed: StoredStage) -> None:
    """In place of the one of its name, and for the same users."""
    values = {
        "owner": listed.owner,
        "created_at": listed.created_at,
        "spec": as_text(listed.spec.to_json()),
        "stage": as_text(listed.stage.to_json()),
    }
    insert = (sqlite.insert if conn.dialect.name == "sqlite" else postgresql.insert)(stages)
    statement = insert.values(name=listed.spec.name, allowed=as_text(listed.allowed.to_json()), **values)
    conn.execute(statement.on_conflict_do_update(index_elements=["name"], set_=values))


def put_allowed(conn: Connection, name: str, allowed: AccessRule) -> None:
    conn.execute(sa.update(stages).where(stages.c.name == name).values(allowed=as_text(allowed.to_json())))


def get_stage(conn: Connection, name: str) -> StoredStage | None:
    row = conn.execute(sa.select(stages).where(stages.c.name == name)).first()
    return _listed(row) if row else None


def all_stages(conn: Connection) -> list[StoredStage]:
    """By name."""
    return [_listed(row) for row in conn.execute(sa.select(stages).order_by(stages.c.name))]


def remove_stage(conn: Connection, name: str) -> bool:
    """Was there one?"""
    return conn.execute(sa.delete(stages).where(stages.c.name == name)).rowcount == 1


def _listed(row: Any) -> StoredStage:
    spec, stage = StageSpec.from_json(json.loads(row.spec)), Stage.from_json(json.loads(row.stage))
    return StoredStage(row.owner, row.created_at, spec, stage, read_allowed(json.loads(row.allowed)))
