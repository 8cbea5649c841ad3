"""Operations of users on tasks: submit, show, read the log. TaskChanges has those that change a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from sqlalchemy import Connection

from app.homes.model import COMMON
from app.homes.service import Homes
from app.kit.errors import BadInput, ModelmillError
from app.kit.sql import Database
from app.training import store
from app.training.model import Attempt, Node, State, Task, TaskEvent
from app.training.model.queue_order import QueuePolicy
from app.training.service.checkpoints import Checkpoint, checkpoints_of_task
from app.training.service.demonstration import SPEC, put_program
from app.training.service.environments import Environments
from app.training.service.folders import checkpoints_of, folders_of, models_in
from app.training.service.options import TrainingOptions
from app.training.service.submission import CheckConversion, TaskSubmission
from app.training.service.task_changes import TaskChanges, Wake, not_found, own_task
from app.training.service.task_log import ANY_LINE, LineFilter, log_of
from app.training.service.views import AttemptFolder, LogView, TaskView
from app.training.spec.sweeps import SweepDocument
from app.training.store import TaskFilter

MAX_CURSOR_DIGITS = 9


class Tasks:
    """Everything belongs to the user: another user's task is TaskNotFound.

    Args:
        wake: wakes the scheduler.
        check_conversion: raises for a conversion that a task may not request.
        order: ids of the tasks that wait for a cluster, if the queue is not in the order of submission.
        nodes: of the clusters that a task may choose, as they were last seen.
        environments: that tasks may name; None: those of this database.
    """

    def __init__(
        self,
        options: TrainingOptions,
        database: Database,
        homes: Homes,
        wake: Wake,
        check_conversion: CheckConversion = lambda *_: None,
        order: Callable[[str], Sequence[str]] = lambda _: (),
        environments: Environments | None = None,
        nodes: Callable[[str], Sequence[Node]] = lambda _: (),
    ) -> None:
        """Opens nothing yet."""
        self.options = options
        self.database = database
        self.homes = homes
        self._wake = wake
        self._order = order
        self.environments = environments or Environments(database)
        self.changes = TaskChanges(database, homes, self.environments, wake)
        self._submitting = TaskSubmission(options, database, homes, check_conversion, self.environments, nodes)

    def submit(
        self, user: str, body: bytes, *, idempotency_key: str | None = None, now: datetime, is_admin: bool = False
    ) -> tuple[Task, bool]:
        """Adds a new task to the end of the queue.

        Args:
            body: The spec, YAML or JSON.
            idempotency_key: If it was used before, its task is returned.
            is_admin: May request a high priority.

        Returns:
            The task, and whether it is new.

        Raises:
            TrainingOff: This installation has no cluster.
            UnreadableSpec, BadSpec, TooLarge: The body is no valid spec.
            PathRefused: The user may not use one of its paths.
            KeyReused: The key was used for another spec.
            TooManyTasks: The user has as many unended tasks as allowed.
        """
        task, is_new = self._submitting.submit(user, body, idempotency_key, now, is_admin=is_admin)
        if is_new:
            self._wake()
        return task, is_new

    def submit_sweep(self, user: str, document: SweepDocument, *, now: datetime, is_admin: bool = False) -> str:
        """Adds the first tasks of a sweep to the end of the queue, all or none. Raises like `submit`.

        Args:
            is_admin: As of `submit`.

        Returns:
            The id of the sweep.
        """
        sweep_id = self._submitting.submit_sweep(user, document, now, is_admin=is_admin)
        self._wake()
        return sweep_id

    def demonstrate(self, user: str, *, now: datetime) -> Task:
        """Adds the smallest possible task to the end of the queue.

        Args:
            user: Its owner.
            now: The time of submission.

        Raises:
            TrainingOff: There is no cluster.
            ProgramNotStored: The nodes could not find its program.
            TooManyTasks: As of every task.
        """
        if self.options.is_on:
            put_program(self.homes.options.root)
        task, _ = self.submit(user, SPEC.format(common=f"{self.homes.options.prefix}/{COMMON}").encode(), now=now)
        return task

    def get(self, user: str, task_id: str) -> TaskView:
        """Returns a task with its attempts and conversions.

        Raises:
            TaskNotFound: This user has no such task.
        """
        with self.database.read() as conn:
            task = own_task(conn, user, task_id)
            attempts = store.attempts_of(conn, task_id)
            ahead = self._count_ahead(conn, [task]).get(task_id)
            conversions = store.conversions_of(conn, task_id)
        folders = folders_of(self.homes, user, attempts)
        artifacts = self._list_artifacts(task, folders)
        return TaskView(
            task, attempts, ahead, folders, artifacts, conversions, checkpoints=checkpoints_of(self.homes, task)
        )

    def latest(self, user: str, task_id: str, *, is_admin: bool = False) -> tuple[Task, Attempt | None]:
        """Returns a task and its last attempt.

        Args:
            is_admin: An administrator, who may look at the processes of anybody's.

        Raises:
            TaskNotFound: There is none that this user may see.
        """
        with self.database.read() as conn:
            task = own_task(conn, user, task_id, is_admin=is_admin)
            return task, store.latest_attempts(conn, [task_id]).get(task_id)

    def attempt(self, user: str, task_id: str, attempt_no: int, *, is_admin: bool = False) -> tuple[Task, Attempt]:
        """Returns a task and one of its attempts.

        Args:
            is_admin: As of `latest`.

        Raises:
            TaskNotFound: There is none that this user may see, or it has no such attempt.
        """
        with self.database.read() as conn:
            task = own_task(conn, user, task_id, is_admin=is_admin)
            attempts = store.attempts_of(conn, task_id)
        attempt = next((one for one in attempts if one.attempt_no == attempt_no), None)
        if attempt is None:
            raise not_found(f"{task_id} with an attempt {attempt_no}")
        return task, attempt

    def page(
        self, user: str | None, filters: TaskFilter, *, cursor: str | None = None, limit: int = 50
    ) -> tuple[list[TaskView], str | None]:
        """Returns a page of tasks, the newest first.

        Args:
            user: whose; None: everybody's, for administrators.
            cursor: from the previous page; None: the first page.

        Returns:
            The tasks, each with its position in the queue and its last attempt; and the cursor of the next page, None:
            this was the last.
        """
        before = _place(cursor) if cursor is not None else None
        with self.database.read() as conn:
            rows = store.page(conn, user, filters, before=before, limit=limit + 1)
            tasks = rows[:limit]
            attempts = store.latest_attempts(conn, [task.task_id for task in tasks])
            ahead = self._count_ahead(conn, tasks)
        views = [TaskView(task, _select_only(attempts.get(task.task_id)), ahead.get(task.task_id)) for task in tasks]
        return views, str(tasks[-1].seq) if len(rows) > limit else None

    def events(self, user: str, task_id: str, *, after: int = 0) -> list[TaskEvent]:
        """Returns the events of a task, oldest first.

        Args:
            user: whose task it is.
            task_id: of the task.
            after: the number of the last event that is known already.

        Raises:
            TaskNotFound: This user has no such task.
        """
        with self.database.read() as conn:
            own_task(conn, user, task_id)
            return store.events_of(conn, task_id, after=after)

    def log(
        self, user: str, task_id: str, *, attempt_no: int | None = None, tail: int = 2000, lines: LineFilter = ANY_LINE
    ) -> LogView:
        """The log of an attempt.

        Args:
            attempt_no: None: the last.
            tail: how many of its last lines.
            lines: which of them count.

        Raises:
            TaskNotFound: It is not this user's, either.
            LogMissing: There is none (yet, or any more), or the task has no such attempt.
        """
        with self.database.read() as conn:
            task = own_task(conn, user, task_id)
            attempts = store.attempts_of(conn, task_id)
        return log_of(self.homes, task, attempts, attempt_no=attempt_no, tail=tail, lines=lines)

    def checkpoints(self, user: str, task_id: str) -> list[Checkpoint]:
        """The checkpoints that verl has left so far, by step; none for a script."""
        with self.database.read() as conn:
            task = own_task(conn, user, task_id)
        return checkpoints_of_task(self.homes, task)

    def count_unended(self, user: str) -> int:
        with self.database.read() as conn:
            return store.count_unended(conn, user)

    def _count_ahead(self, conn: Connection, tasks: Sequence[Task]) -> Mapping[str, int]:
        """How many tasks precede each of these waiting ones."""
        if self.options.queue is QueuePolicy.FIFO:
            return store.counts_ahead(conn, tasks)
        waiting = [task for task in tasks if task.is_waiting]
        places = {
            (name, task_id): place
            for name in {task.cluster for task in waiting}
            for place, task_id in enumerate(self._order(name))
        }
        keys = {task.task_id: (task.cluster, task.task_id) for task in waiting}
        return {task_id: places[key] for task_id, key in keys.items() if key in places}

    def _list_artifacts(self, task: Task, folders: dict[int, AttemptFolder]) -> list[str]:
        folder = folders.get(task.latest_attempt_no)
        if task.state is not State.SUCCEEDED or folder is None or not folder.path:
            return []
        with suppress(ModelmillError):  # the task is shown even if the disk is unavailable
            return models_in(self.homes, task.user, folder.path)
        return []


def _select_only(attempt: Attempt | None) -> list[Attempt]:
    return [attempt] if attempt else []


def _place(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= MAX_CURSOR_DIGITS):
        raise BadInput(f"cursor: {cursor!r} is none", hint="Give the next_cursor of the page before, as it is.")
    return int(cursor)


__all__ = ["AttemptFolder", "LogView", "TaskView", "Tasks", "Wake"]
