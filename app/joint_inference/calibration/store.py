"""Remembers calibrations in SQL. All runs in the caller's transactions."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.joint_inference.calibration.model import CALIBRATION_REQUEST, Calibration, State
from app.joint_inference.store.tables import calibrations
from app.kit.sql import note_change
from app.kit.sql.rows import first, from_row, row_of

OPEN = (State.WAITING, State.RUNNING)


def calibration_key(calibration_id: str) -> str:
    """Key under which its changes are announced to open pages."""
    return f"calibration:{calibration_id}"


def add(conn: Connection, calibration: Calibration) -> None:
    conn.execute(
        sa.insert(calibrations).values(
            row_of(
                calibrations,
                calibration,
                state=calibration.state.value,
                request=json.dumps(CALIBRATION_REQUEST.write(calibration.request)),
                error=json.dumps(dict(calibration.error)),
            )
        )
    )


def find(conn: Connection, calibration_id: str) -> Calibration | None:
    return first(conn, sa.select(calibrations).where(calibrations.c.calibration_id == calibration_id), _read)


def of_owner(conn: Connection, owner: str) -> list[Calibration]:
    """Returns a user's calibrations, the newest first."""
    mine = sa.select(calibrations).where(calibrations.c.owner == owner)
    return [_read(row) for row in conn.execute(mine.order_by(calibrations.c.created_at.desc()))]


def not_ended(conn: Connection) -> list[Calibration]:
    """Returns everybody's calibrations that have not ended."""
    query = sa.select(calibrations).where(calibrations.c.state.in_([state.value for state in OPEN]))
    return [_read(row) for row in conn.execute(query)]


def change(conn: Connection, calibration_id: str, **values: Any) -> bool:
    """Changes a calibration that has not ended.

    Returns:
        Whether it was changed.
    """
    note_change(conn, calibration_key(calibration_id))
    query = sa.update(calibrations).where(
        calibrations.c.calibration_id == calibration_id, calibrations.c.state.in_([state.value for state in OPEN])
    )
    return conn.execute(query.values(**values)).rowcount == 1


def remove(conn: Connection, calibration_id: str) -> None:
    conn.execute(sa.delete(calibrations).where(calibrations.c.calibration_id == calibration_id))


def _read(row: Row[Any]) -> Calibration:
    request = CALIBRATION_REQUEST.read(json.loads(row.request))
    return from_row(Calibration, row, state=State(row.state), request=request, error=json.loads(row.error))
