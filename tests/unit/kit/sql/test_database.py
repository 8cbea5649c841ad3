"""What a transaction announces."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.kit.sql import Database, note_change


def test_changes_are_announced_once_they_can_be_read_and_never_of_what_was_given_up(tmp_path: Path) -> None:
    announced: list[set[str]] = []
    database = Database(f"sqlite:///{tmp_path / 'db'}", announce=lambda keys: announced.append(set(keys)))
    with database.write() as conn:
        note_change(conn, "tasks", "task:1")
        note_change(conn, "tasks")
        assert announced == []
    assert announced == [{"tasks", "task:1"}]
    with pytest.raises(ZeroDivisionError), database.write() as conn:
        note_change(conn, "tasks")
        raise ZeroDivisionError
    with database.write() as conn:
        conn.exec_driver_sql("SELECT 1")
    database.close()
    assert announced == [{"tasks", "task:1"}]
