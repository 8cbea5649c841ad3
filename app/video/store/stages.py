"""The catalog of stages, and their profiles."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.access import EVERYBODY, AccessRule, read_allowed
from app.kit.sql.rows import first, insert_into, upsert
from app.kit.text.plain_text import json_text
from app.video.model.kinds import STAGE_SPEC, Stage, StageSpec
from app.video.model.plan import RESOLUTIONS
from app.video.model.report import Measurement
from app.video.store.tables import measurements as measurements_table
from app.video.store.tables import stages

MEASURED = ("node", "stage", "model", "resolution")
"""The primary key of a measurement."""
_RESOLUTIONS = list(RESOLUTIONS)


@dataclass(frozen=True)
class StoredStage:
    """A stage of the catalog."""

    owner: str
    """Whose models it has."""
    created_at: str
    spec: StageSpec
    stage: Stage
    allowed: AccessRule = EVERYBODY
    """Who may use it."""
    problem: str = ""
    """Why its models are pinned to older versions than its names refer to; empty: they are not."""


def put_stage(conn: Connection, listed: StoredStage) -> None:
    """Replaces the stage of its name, for the same users."""
    values = {
        "owner": listed.owner,
        "created_at": listed.created_at,
        "spec": json_text(STAGE_SPEC.write(listed.spec)),
        "stage": json_text(listed.stage.to_json()),
        "problem": listed.problem,
    }
    statement = insert_into(conn, stages).values(
        name=listed.spec.name, allowed=json_text(listed.allowed.to_json()), **values
    )
    conn.execute(statement.on_conflict_do_update(index_elements=["name"], set_=values))


def put_allowed(conn: Connection, name: str, allowed: AccessRule) -> None:
    conn.execute(sa.update(stages).where(stages.c.name == name).values(allowed=json_text(allowed.to_json())))


def get_stage(conn: Connection, name: str) -> StoredStage | None:
    return first(conn, sa.select(stages).where(stages.c.name == name), _stage_from_row)


def all_stages(conn: Connection) -> list[StoredStage]:
    """By name."""
    return [_stage_from_row(row) for row in conn.execute(sa.select(stages).order_by(stages.c.name))]


def remove_stage(conn: Connection, name: str) -> bool:
    """Was there one?"""
    return conn.execute(sa.delete(stages).where(stages.c.name == name)).rowcount == 1


def _stage_from_row(row: Row[Any]) -> StoredStage:
    spec, stage = STAGE_SPEC.read(json.loads(row.spec)), Stage.from_json(json.loads(row.stage))
    return StoredStage(row.owner, row.created_at, spec, stage, read_allowed(json.loads(row.allowed)), row.problem)


def put_measurements(conn: Connection, rows: Iterable[Measurement]) -> None:
    """Each replaces the one of its key. Always in the order of their keys, so that two transactions do not deadlock."""
    for row in sorted(rows, key=lambda row: tuple(getattr(row, key) for key in MEASURED)):
        upsert(conn, measurements_table, vars(row))


def measurements(
    conn: Connection, *, node: str = "", stage: str = "", stages: Collection[str] | None = None
) -> list[Measurement]:
    """What was measured, by node, stage, model_id and resolution.

    Args:
        node: empty: any.
        stage: empty: any.
        stages: None: any.
    """
    query = sa.select(measurements_table)
    if node:
        query = query.where(measurements_table.c.node == node)
    if stage:
        query = query.where(measurements_table.c.stage == stage)
    if stages is not None:
        query = query.where(measurements_table.c.stage.in_(stages))
    rows = [Measurement(**row._mapping) for row in conn.execute(query)]
    return sorted(rows, key=lambda row: (row.node, row.stage, row.model_id, _parse_size(row.resolution), row.model))


def _parse_size(resolution: str) -> int:
    return _RESOLUTIONS.index(resolution) if resolution in _RESOLUTIONS else len(_RESOLUTIONS)
