"""Which changes are announced to open pages, and under which keys: see Database.write."""

from __future__ import annotations

from sqlalchemy import Connection

from app.kit.sql import note_change

ALL_TASKS = "tasks"
"""Any task changed."""
CLUSTER = "cluster"
"""The scheduler saw the cluster otherwise than before."""


def task_key(task_id: str) -> str:
    return f"task:{task_id}"


def note_task(conn: Connection, task_id: str) -> None:
    note_change(conn, ALL_TASKS, task_key(task_id))
