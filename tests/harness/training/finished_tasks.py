"""Training tasks that have run, put into the database as the scheduler would have left them, with their folder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.homes.service import Homes
from app.kit.clock import to_text
from app.kit.sql import Database
from app.training import store
from app.training.model import Attempt, Demand, Event, NewTask, Task, Workload, submission_id
from app.training.service.results import RegisteredModel, RegistrationRequest

TASK = "mvp2-alice-script-20261120-204302-ab12"
BEGAN = datetime(2026, 11, 20, 20, 43, 2, tzinfo=UTC)


def finished_task(
    database: Database,
    homes: Homes,
    spec: str,
    *,
    user: str = "alice",
    task_id: str = TASK,
    name: str = "",
    began: datetime = BEGAN,
    end: Event | None = Event.SUCCEED,
) -> Task:
    """It ended a minute after it began, and so; end None: it still runs. The user has a home."""
    ended, folder = began + timedelta(minutes=1), submission_id(task_id, 1)
    homes.folders.begun(user, folder, now=began)
    folder_of(homes, user, task_id).mkdir()
    new = NewTask(task_id, user, Workload.SCRIPT, spec, Demand(1, 0, 1, claims_by_group=False), name)
    with database.write() as conn:
        task: Task | None = store.add_task(conn, new, to_text(began))
        ended_at = to_text(ended) if end else None
        store.add_attempt(conn, Attempt(task_id, 1, folder, to_text(began)))
        store.change_attempt(conn, store.attempts_of(conn, task_id)[0], ended_at=ended_at)
        for event in (Event.ADMIT, Event.ACCEPT, Event.START, *([end] if end else [])):
            assert task is not None
            task = store.apply(conn, task, event, to_text(ended), latest_attempt_no=1)
    assert task is not None
    if end is not None:
        homes.folders.ended(user, folder, ended)
    return task


def folder_of(homes: Homes, user: str, task_id: str = TASK) -> Path:
    """Of its first attempt."""
    return homes.options.root / "users" / user / "jobs" / submission_id(task_id, 1)


class NoRegistry:
    """Where no test asks for a model of the registry."""

    def register(self, request: RegistrationRequest) -> RegisteredModel:
        raise AssertionError(request.name)
