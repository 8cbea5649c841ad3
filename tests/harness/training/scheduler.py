"""A service that trains on a cluster of which nothing answers, and what the scheduler would do to its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.bootstrap.homes import open_homes
from app.homes.service import Homes
from app.kit.sql import Database
from app.training import store
from app.training.model import Attempt, Event, State, Task, submission_id
from tests.harness.deployment import Deployment

RAY = "http://127.0.0.1:1"
TASKS = "/api/v2/tasks"
AT = "2026-11-01T12:00:00.000Z"
SCRIPT = "workload: script\ncode_path: /private/common/code/digits\n"
WAY = {
    State.QUEUED: (),
    State.PENDING_RESOURCES: (Event.WAIT,),
    State.SUBMITTING: (Event.ADMIT,),
    State.RUNNING: (Event.ADMIT, Event.ACCEPT, Event.START),
    State.SUCCEEDED: (Event.ADMIT, Event.ACCEPT, Event.START, Event.SUCCEED),
    State.FAILED: (Event.ADMIT, Event.ACCEPT, Event.START, Event.FAIL),
}


class Scheduler:
    """Does to tasks what the scheduler does, in the service's own database and homes, without any Ray."""

    def __init__(self, database: Database, homes: Homes) -> None:
        self.database = database
        self.homes = homes

    def bring(self, task_id: str, state: State, **fields: Any) -> Task:
        """From QUEUED on. fields: of the task, with the last step."""
        with self.database.write() as conn:
            task = store.get_task(conn, task_id)
            way = WAY[state]
            for number, event in enumerate(way, 1):
                assert task is not None
                task = store.apply(conn, task, event, AT, **(fields if number == len(way) else {}))
            assert task is not None
            return task

    def end(self, task_id: str, state: State) -> None:
        """Of one that runs."""
        with self.database.write() as conn:
            task = store.get_task(conn, task_id)
            assert task is not None
            store.apply(conn, task, WAY[state][-1], AT)

    def cancelled_at(self, task_id: str, at: str) -> None:
        """Pretend that its user has cancelled it then."""
        with self.database.write() as conn:
            task = store.get_task(conn, task_id)
            assert task is not None
            store.change(conn, task, at, cancel_requested_at=at)

    def attempt(self, task_id: str, *, log: str | None = None, **fields: Any) -> Path:
        """Its next attempt. fields: of it. Returns its folder."""
        with self.database.write() as conn:
            task = store.get_task(conn, task_id)
            assert task is not None
            number = task.latest_attempt_no + 1
            attempt = Attempt(task_id, number, submission_id(task_id, number), AT)
            store.add_attempt(conn, attempt)
            store.change_attempt(conn, attempt, **{"ray_status": "RUNNING", **fields})
            store.change(conn, task, AT, latest_attempt_no=number)
        self.homes.files.create(task.user)
        self.homes.folders.begun(task.user, attempt.folder, now=datetime.now(UTC))
        folder = self.homes.options.root / "users" / task.user / "jobs" / attempt.folder
        folder.mkdir()
        if log is not None:
            (folder / "driver.log").write_text(log)
        return folder


@contextmanager
def scheduler_of(deployment: Deployment) -> Iterator[Scheduler]:
    settings = deployment.settings()
    database = Database(settings.database)
    try:
        yield Scheduler(database, open_homes(settings, database))
    finally:
        database.close()


def make_common(homes_root: Path) -> None:
    """What specs may name: a program, a model, data."""
    for name in ("code/digits/train.py", "models/small/config.json", "datasets/train.parquet", "datasets/val.parquet"):
        path = homes_root / "common" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
