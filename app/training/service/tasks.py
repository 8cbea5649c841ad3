"""Operations of users on tasks: submit, show, cancel, read the log."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from sqlalchemy import Connection

from app.homes.model import COMMON
from app.homes.service import Homes
from app.kit.clock import now as moment
from app.kit.clock import to_text
from app.kit.errors import BadInput, ModelmillError
from app.kit.sql import Database
from app.training import store
from app.training.errors import TaskFinished, TaskNotFound, TaskNotReleasable
from app.training.model import Attempt, Event, Node, Priority, State, Task, TaskEvent
from app.training.model.queue_order import QueuePolicy
from app.training.service.checkpoints import Checkpoint, checkpoints_of_task
from app.training.service.demonstration import SPEC, put_program
from app.training.service.environments import Environments
from app.training.service.folders import checkpoints_of, folders_of, models_in
from app.training.service.options import TrainingOptions
from app.training.service.submission import CheckConversion, TaskSubmission, check_priority
from app.training.service.task_log import ANY_LINE, LineFilter, log_of
from app.training.service.views import AttemptFolder, LogView, TaskView
from app.training.spec.document import bad
from app.training.spec.sweeps import SweepDocument
from app.training.store import TaskFilter

Wake = Callable[[], None]
"""Wakes the scheduler. Must not fail if Redis does not answer: the scheduler checks by itself every few seconds."""
CANCEL_REQUESTED, PRIORITY = "CANCEL_REQUESTED", "PRIORITY"
RELEASED = (
    "{user} let it go before Ray said that it had ended: its program may still run on the cluster, and is stopped when "
    "Ray answers."
)
MAX_CURSOR_DIGITS = 9
SWEEP_CANCELED = "It was cancelled."


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
        self.wake = wake
        self._order = order
        self.environments = environments or Environments(database)
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

        Raises TrainingOff, UnreadableSpec, BadSpec, TooLarge, PathRefused, KeyReused, TooManyTasks.
        """
        task, is_new = self._submitting.submit(user, body, idempotency_key, now, is_admin=is_admin)
        if is_new:
            self.wake()
        return task, is_new

    def submit_sweep(self, user: str, document: SweepDocument, *, now: datetime, is_admin: bool = False) -> str:
        """Adds the first tasks of a sweep to the end of the queue, all or none. Raises like `submit`.

        Args:
            is_admin: As of `submit`.

        Returns:
            The id of the sweep.
        """
        sweep_id = self._submitting.submit_sweep(user, document, now, is_admin=is_admin)
        self.wake()
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
        with self.database.read() as conn:
            task = _own(conn, user, task_id)
            attempts = store.attempts_of(conn, task_id)
            ahead = self._counts_ahead(conn, [task]).get(task_id)
            conversions = store.conversions_of(conn, task_id)
        folders = folders_of(self.homes, user, attempts)
        artifacts = self._artifacts(task, folders)
        return TaskView(
            task, attempts, ahead, folders, artifacts, conversions, checkpoints=checkpoints_of(self.homes, task)
        )

    def latest(self, user: str, task_id: str, *, is_admin: bool = False) -> tuple[Task, Attempt | None]:
        """A task and its last attempt. Raises TaskNotFound.

        Args:
            is_admin: An administrator, who may look at the processes of anybody's.
        """
        with self.database.read() as conn:
            task = _any(conn, task_id) if is_admin else _own(conn, user, task_id)
            return task, store.latest_attempts(conn, [task_id]).get(task_id)

    def attempt(self, user: str, task_id: str, attempt_no: int, *, is_admin: bool = False) -> tuple[Task, Attempt]:
        """A task and one of its attempts. Raises TaskNotFound, also if it has no such attempt.

        Args:
            is_admin: As of `latest`.
        """
        with self.database.read() as conn:
            task = _any(conn, task_id) if is_admin else _own(conn, user, task_id)
            attempts = store.attempts_of(conn, task_id)
        attempt = next((one for one in attempts if one.attempt_no == attempt_no), None)
        if attempt is None:
            raise _not_found(f"{task_id} with an attempt {attempt_no}")
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
            ahead = self._counts_ahead(conn, tasks)
        views = [TaskView(task, _only(attempts.get(task.task_id)), ahead.get(task.task_id)) for task in tasks]
        return views, str(tasks[-1].seq) if len(rows) > limit else None

    def cancel(self, user: str, task_id: str, *, now: datetime, is_admin: bool = False) -> Task:
        """Cancels a waiting task at once; otherwise tells Ray, and the task is CANCELING until it has stopped.
        Repeating it changes nothing.

        Args:
            user: Who does it.
            is_admin: An administrator, who may cancel anybody's.

        Raises:
            TaskNotFound, TaskFinished.
        """
        at, changed = to_text(now), None
        with self.database.read() as conn:
            task = _any(conn, task_id) if is_admin else _own(conn, user, task_id)
        self._end_folder(task, now)
        while changed is None:  # the scheduler was faster: the action depends on what it did
            with self.database.write() as conn:
                task = _any(conn, task_id) if is_admin else _own(conn, user, task_id)
                if task.state in (State.CANCELING, State.CANCELED):
                    return task
                _require_unended(task)
                changed = store.apply(conn, task, Event.CANCEL, at, detail={"by": user}, cancel_requested_at=at)
                if changed is not None and changed.state is State.CANCELING:
                    store.add_event(conn, task_id, CANCEL_REQUESTED, at, {"by": user})
        self.wake()
        return changed

    def release(self, user: str, task_id: str, *, now: datetime, is_admin: bool = False) -> Task:
        """Ends a task that is being cancelled without waiting for Ray any longer. Repeating it changes nothing.

        If it still runs, the scheduler stops it once Ray answers; it holds its GPUs until then.

        Args:
            user: The acting user.
            is_admin: An administrator, who may release anybody's.

        Raises:
            TaskNotFound, TaskFinished.
            TaskNotReleasable: It is not being cancelled, or not for RELEASE_AFTER yet.
        """
        at, changed = to_text(now), None
        while changed is None:  # the scheduler was faster
            with self.database.write() as conn:
                task = _any(conn, task_id) if is_admin else _own(conn, user, task_id)
                if task.state is State.CANCELED:
                    return task
                _require_releasable(task, now)
                detail = {"by": user, "released": True}
                summary = RELEASED.format(user=user)
                changed = store.apply(conn, task, Event.RELEASE, at, detail=detail, error_summary=summary)
        self.wake()
        return changed

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
        at, changed = to_text(now), None
        with self.database.read() as conn:
            task = _any(conn, task_id) if is_admin else _own(conn, user, task_id)
        most = self.environments.least_urgent(task.environment)
        if is_admin or most is None:
            check_priority(priority, is_admin=is_admin)
        elif priority.rank < most.rank:
            raise bad([{"at": "priority", "problem": f"in its environment it is {most} at most"}])
        while changed is None:  # the scheduler was faster
            with self.database.write() as conn:
                task = _any(conn, task_id) if is_admin else _own(conn, user, task_id)
                if not task.is_waiting:
                    raise TaskFinished(
                        f"The task does not wait any more: it is {task.state.value}.",
                        hint="Only the place in the queue can be changed.",
                    )
                changed = store.change(conn, task, at, priority=priority)
                if changed is not None:
                    detail = {"by": user, "from": task.priority.value, "to": priority.value}
                    store.add_event(conn, task_id, PRIORITY, at, detail)
        self.wake()
        return changed

    def events(self, user: str, task_id: str, *, after: int = 0) -> list[TaskEvent]:
        with self.database.read() as conn:
            _own(conn, user, task_id)
            return store.events_of(conn, task_id, after=after)

    def log(
        self,
        user: str,
        task_id: str,
        *,
        attempt_no: int | None = None,
        tail: int = 2000,
        lines: LineFilter = ANY_LINE,
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
            task = _own(conn, user, task_id)
            attempts = store.attempts_of(conn, task_id)
        return log_of(self.homes, task, attempts, attempt_no=attempt_no, tail=tail, lines=lines)

    def checkpoints(self, user: str, task_id: str) -> list[Checkpoint]:
        """The checkpoints that verl has left so far, by step; none for a script."""
        with self.database.read() as conn:
            task = _own(conn, user, task_id)
        return checkpoints_of_task(self.homes, task)

    def count_unended(self, user: str) -> int:
        with self.database.read() as conn:
            return store.count_unended(conn, user)

    def cancel_all(self, user: str) -> None:
        """Cancels all tasks of a deleted user."""
        with self.database.write() as conn:
            store.end_sweeps_of(conn, user, SWEEP_CANCELED)
            under_way = store.unended_of(conn, user)
        for task in under_way:
            with suppress(TaskFinished):  # it ended by itself meanwhile
                self.cancel(user, task.task_id, now=moment())

    def _counts_ahead(self, conn: Connection, tasks: Sequence[Task]) -> Mapping[str, int]:
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

    def _end_folder(self, task: Task, now: datetime) -> None:
        """Records the end of the folder of a task that waits for a retry, because no attempt will. An attempt that
        starts meanwhile takes it again."""
        if task.is_waiting and task.latest_attempt_no and task.folder is not None:
            self.homes.folders.ended(task.user, task.folder, now)

    def _artifacts(self, task: Task, folders: dict[int, AttemptFolder]) -> list[str]:
        folder = folders.get(task.latest_attempt_no)
        if task.state is not State.SUCCEEDED or folder is None or not folder.path:
            return []
        with suppress(ModelmillError):  # the task is shown even if the disk is unavailable
            return models_in(self.homes, task.user, folder.path)
        return []


def _own(conn: Connection, user: str, task_id: str) -> Task:
    task = _any(conn, task_id)
    if task.user != user:
        raise _not_found(task_id)
    return task


def _any(conn: Connection, task_id: str) -> Task:
    task = store.get_task(conn, task_id) if task_id.isascii() and task_id.isprintable() else None
    if task is None:
        raise _not_found(task_id)
    return task


def _not_found(task_id: str) -> TaskNotFound:
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


def _only(attempt: Attempt | None) -> list[Attempt]:
    return [attempt] if attempt else []


def _place(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= MAX_CURSOR_DIGITS):
        raise BadInput(f"cursor: {cursor!r} is none", hint="Give the next_cursor of the page before, as it is.")
    return int(cursor)


__all__ = ["AttemptFolder", "LogView", "TaskView", "Tasks", "Wake"]
