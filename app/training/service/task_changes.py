"""What users change about their tasks: cancel, release, move in the queue."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from sqlalchemy import Connection

from app.homes.service import Homes
from app.kit.clock import now as moment
from app.kit.clock import to_text
from app.kit.sql import Database
from app.training import store
from app.training.errors import TaskFinished, TaskNotFound, TaskNotReleasable
from app.training.model import Event, Priority, State, Task
from app.training.service.environments import Environments
from app.training.service.submission_checks import check_priority
from app.training.spec.document import bad

Wake = Callable[[], None]
"""Wakes the scheduler. Must not fail if Redis does not answer: the scheduler checks by itself every few seconds."""
CANCEL_REQUESTED, PRIORITY = "CANCEL_REQUESTED", "PRIORITY"
RELEASED = (
    "{user} let it go before Ray said that it had ended: its program may still run on the cluster, and is stopped when "
    "Ray answers."
)
SWEEP_CANCELED = "It was cancelled."


class TaskChanges:
    """Everything belongs to the user: another user's task is TaskNotFound, except for administrators.

    Args:
        wake: wakes the scheduler.
    """

    def __init__(self, database: Database, homes: Homes, environments: Environments, wake: Wake) -> None:
        """Opens nothing yet."""
        self._database = database
        self._homes = homes
        self._environments = environments
        self._wake = wake

    def cancel(self, user: str, task_id: str, *, now: datetime, is_admin: bool = False) -> Task:
        """Cancels a waiting task at once; otherwise tells Ray, and the task is CANCELING until it has stopped.
        Repeating it changes nothing.

        Args:
            user: Who does it.
            is_admin: An administrator, who may cancel anybody's.

        Raises:
            TaskNotFound: The user may change no such task.
            TaskFinished: It has ended without being cancelled.
        """
        at = to_text(now)

        def change(conn: Connection, task: Task) -> Task | None:
            if task.state in (State.CANCELING, State.CANCELED):
                return task
            _require_unended(task)
            changed = store.apply(conn, task, Event.CANCEL, at, detail={"by": user}, cancel_requested_at=at)
            if changed is not None and changed.state is State.CANCELING:
                store.add_event(conn, task_id, CANCEL_REQUESTED, at, {"by": user})
            return changed

        with self._database.read() as conn:
            task = own_task(conn, user, task_id, is_admin=is_admin)
        self._end_folder(task, now)
        return self._apply_change(user, task_id, change, is_admin=is_admin)

    def release(self, user: str, task_id: str, *, now: datetime, is_admin: bool = False) -> Task:
        """Ends a task that is being cancelled without waiting for Ray any longer. Repeating it changes nothing.

        If it still runs, the scheduler stops it once Ray answers; it holds its GPUs until then.

        Args:
            user: The acting user.
            is_admin: An administrator, who may release anybody's.

        Raises:
            TaskNotFound: The user may change no such task.
            TaskFinished: It has ended without being cancelled.
            TaskNotReleasable: It is not being cancelled, or not for RELEASE_AFTER yet.
        """

        def change(conn: Connection, task: Task) -> Task | None:
            if task.state is State.CANCELED:
                return task
            _require_releasable(task, now)
            detail, summary = {"by": user, "released": True}, RELEASED.format(user=user)
            return store.apply(conn, task, Event.RELEASE, to_text(now), detail=detail, error_summary=summary)

        return self._apply_change(user, task_id, change, is_admin=is_admin)

    def set_priority(
        self, user: str, task_id: str, priority: Priority, *, now: datetime, is_admin: bool = False
    ) -> Task:
        """Changes the priority of a waiting task.

        Args:
            is_admin: of anybody's task, and high.

        Raises:
            TaskNotFound: It is not this user's, either.
            TaskFinished: It no longer waits.
            BadSpec: This user may not set this priority.
        """
        at = to_text(now)

        def change(conn: Connection, task: Task) -> Task | None:
            if not task.is_waiting:
                raise TaskFinished(
                    f"The task does not wait any more: it is {task.state.value}.",
                    hint="Only the place in the queue can be changed.",
                )
            changed = store.change(conn, task, at, priority=priority)
            if changed is not None:
                detail = {"by": user, "from": task.priority.value, "to": priority.value}
                store.add_event(conn, task_id, PRIORITY, at, detail)
            return changed

        with self._database.read() as conn:
            task = own_task(conn, user, task_id, is_admin=is_admin)
        most = self._environments.least_urgent(task.environment)
        if is_admin or most is None:
            check_priority(priority, is_admin=is_admin)
        elif priority.rank < most.rank:
            raise bad([{"at": "priority", "problem": f"in its environment it is {most} at most"}])
        return self._apply_change(user, task_id, change, is_admin=is_admin)

    def cancel_all(self, user: str) -> None:
        """Cancels all tasks of a deleted user."""
        with self._database.write() as conn:
            store.end_sweeps_of(conn, user, SWEEP_CANCELED)
            under_way = store.unended_of(conn, user)
        for task in under_way:
            with suppress(TaskFinished):  # it ended by itself meanwhile
                self.cancel(user, task.task_id, now=moment())

    def _apply_change(
        self, user: str, task_id: str, change: Callable[[Connection, Task], Task | None], *, is_admin: bool
    ) -> Task:
        """Changes a task, and wakes the scheduler.

        Args:
            change: returns the changed task, the same one if there is nothing to change, and None if the scheduler was
                faster: then what to do depends on what it did.
        """
        while True:
            with self._database.write() as conn:
                task = own_task(conn, user, task_id, is_admin=is_admin)
                changed = change(conn, task)
            if changed is not None:
                break
        if changed is not task:
            self._wake()
        return changed

    def _end_folder(self, task: Task, now: datetime) -> None:
        """Records the end of the folder of a task that waits for a retry, because no attempt will. An attempt that
        starts meanwhile takes it again."""
        if task.is_waiting and task.latest_attempt_no and task.folder is not None:
            self._homes.folders.ended(task.user, task.folder, now)


def own_task(conn: Connection, user: str, task_id: str, *, is_admin: bool = False) -> Task:
    """Returns a task of the user; for an administrator, of anybody.

    Args:
        conn: the transaction that reads or changes it.
        user: who asks.
        task_id: of the task, as the user wrote it.
        is_admin: whether the user may see the tasks of others.

    Raises:
        TaskNotFound: There is none.
    """
    task = store.get_task(conn, task_id) if task_id.isascii() and task_id.isprintable() else None
    if task is None or not (is_admin or task.user == user):
        raise not_found(task_id)
    return task


def not_found(task_id: str) -> TaskNotFound:
    return TaskNotFound(f"There is no task {task_id}.", hint="The list of tasks shows the existing ones.")


def _require_unended(task: Task) -> None:
    if task.is_terminal:
        raise TaskFinished(
            f"The task has ended already: {task.state.value}.", hint="Only what waits or runs can be cancelled."
        )


def _require_releasable(task: Task, now: datetime) -> None:
    _require_unended(task)
    if task.releasable_from is None:
        raise TaskNotReleasable(
            f"The task is not being cancelled: it is {task.state.value}.",
            hint="Cancel it first; what has not ended ten minutes later can be let go.",
        )
    if now < task.releasable_from:
        raise TaskNotReleasable(
            f"Ray was told to stop it; it can be let go from {to_text(task.releasable_from)} on.",
            hint="It usually ends within seconds, once Ray answers.",
            detail={"retry_after_s": math.ceil((task.releasable_from - now).total_seconds())},
        )
