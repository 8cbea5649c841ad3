"""Sweeps: tasks that differ in a few fields, compared by one metric. The scheduler adds those that are not submitted at
once, and notes what ended ones have reached: see scheduling.sweep_steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from app.kit.errors import ModelmillError
from app.training import store
from app.training.errors import SweepNotFound, TaskFinished
from app.training.model import Task, TaskEvent
from app.training.model.checkpoint_order import usual_metric
from app.training.model.learning_curve import Curve, Point, best_of
from app.training.service.curves import CurveReader
from app.training.service.task_changes import SWEEP_CANCELED
from app.training.service.tasks import Tasks
from app.training.spec.changes import Difference, document_differences, with_values
from app.training.spec.sweeps import SweepDocument, read_sweep
from app.training.store import StoredSweep
from app.training.store.sweeps import RESULT, STOPPED_EARLY

MOST_LISTED = 200


@dataclass(frozen=True)
class SweepRow:
    """A task of a sweep."""

    task: Task
    best: Point | None = None
    """Of the sweep's metric; None: it has reported none."""
    is_best: bool = False
    """No other task of the sweep has a better one."""
    is_stopped_early: bool = False

    @property
    def values(self) -> Mapping[str, Any]:
        """Of the fields that the sweep varies."""
        return self.task.sweep_point


@dataclass(frozen=True)
class SweepView:
    sweep_id: str
    name: str
    document: SweepDocument
    created_at: str
    is_open: bool
    """Tasks are to be added, or have not ended."""
    remark: str = ""
    """Why no more tasks are added, in a sentence."""
    metric: str = ""
    """The metric that they are compared by; "": they have reported none."""
    rows: Sequence[SweepRow] = field(default=())
    """In the order of submission."""

    @property
    def fields(self) -> Sequence[str]:
        """Those that differ between its tasks."""
        return list(self.document.spec.vary)

    @property
    def size(self) -> int:
        """How many tasks it has in the end, at most."""
        return len(self.rows) if self.remark else self.document.size

    @property
    def search(self) -> str:
        return self.document.spec.search.value

    @property
    def concurrency(self) -> int | None:
        """How many of its tasks wait or run at once; None: all."""
        return self.document.concurrency if self.document.concurrency < self.document.size else None

    @property
    def has_ended(self) -> bool:
        return len(self.rows) >= self.size and not self.unended

    @property
    def unended(self) -> int:
        return sum(not row.task.is_terminal for row in self.rows)

    @property
    def is_lower_better(self) -> bool | None:
        return self.document.is_lower_better(self.metric)

    @property
    def ranked(self) -> list[SweepRow]:
        """Those with a value, the best first."""
        sign = 1 if self.is_lower_better else -1
        judged = [(sign * row.best.value, row.task.seq, row) for row in self.rows if row.best is not None]
        return [row for *_, row in sorted(judged, key=lambda one: one[:2])]


class TaskSweeps:
    """Everything belongs to the user: another user's sweep is SweepNotFound."""

    def __init__(self, tasks: Tasks, curves: CurveReader) -> None:
        self._tasks = tasks
        self._curves = curves

    def submit(self, user: str, body: bytes, *, now: datetime, is_admin: bool = False) -> SweepView:
        """Adds the first tasks of a sweep to the end of the queue, all or none.

        Args:
            body: a task with `vary`, YAML or JSON: see SweepSpec.
            is_admin: As of Tasks.submit.

        Raises like Tasks.submit.
        """
        return self.view(user, self._tasks.submit_sweep(user, read_sweep(body), now=now, is_admin=is_admin))

    def resubmit(
        self, user: str, sweep_id: str, changes: Mapping[str, JsonValue], *, now: datetime, is_admin: bool = False
    ) -> tuple[SweepView, list[Difference]]:
        """Submits a sweep once more, with other values.

        Args:
            changes: By field, as `vary.total_epochs` or `most`; None removes it.

        Returns:
            The new sweep, and how its document differs.

        Raises:
            SweepNotFound: This user has no such sweep; other errors are those of `submit`.
        """
        before = self.document(user, sweep_id)
        view = self.submit(user, with_values(before.all_fields, changes).encode(), now=now, is_admin=is_admin)
        return view, document_differences([before.all_fields, view.document.all_fields])

    def document(self, user: str, sweep_id: str) -> SweepDocument:
        """Returns the sweep as it was submitted. See `require`."""
        return read_sweep(self._find_stored(user, sweep_id).document.encode())

    def view(self, user: str, sweep_id: str) -> SweepView:
        """Returns the sweep with its tasks. See `require`."""
        return self._build_view(*self._read([self._find_stored(user, sweep_id)])[0])

    def views(self, user: str) -> list[SweepView]:
        """The last ones of a user, the newest first, each with what its ended tasks have reached."""
        with self._tasks.database.read() as conn:
            stored = store.sweeps_of(conn, user, MOST_LISTED)
        return [self._build_view(*one, is_live=False) for one in self._read(stored)]

    def require(self, user: str, sweep_id: str) -> None:
        """Checks that it is a sweep of this user.

        Raises:
            SweepNotFound: It is not.
        """
        self._find_stored(user, sweep_id)

    def cancel(self, user: str, sweep_id: str, *, now: datetime) -> SweepView:
        """Adds no more tasks to a sweep, and cancels those that have not ended. See `require`."""
        stored = self._find_stored(user, sweep_id)
        with self._tasks.database.write() as conn:
            if stored.is_open and not stored.remark:
                store.change_sweep(conn, sweep_id, remark=SWEEP_CANCELED)
            tasks = store.tasks_by_sweep(conn, [sweep_id])[sweep_id]
        for task in tasks:
            with suppress(TaskFinished):
                self._tasks.changes.cancel(user, task.task_id, now=now)
        return self.view(user, sweep_id)

    def _find_stored(self, user: str, sweep_id: str) -> StoredSweep:
        is_name = sweep_id.isascii() and sweep_id.isprintable()
        with self._tasks.database.read() as conn:
            stored = store.sweep_of(conn, user, sweep_id) if is_name and sweep_id else None
        if stored is None:
            raise SweepNotFound(f"There is no sweep {sweep_id}.", hint="The tasks of a sweep name it.")
        return stored

    def _read(self, sweeps: Sequence[StoredSweep]) -> list[tuple[StoredSweep, list[Task], list[TaskEvent]]]:
        with self._tasks.database.read() as conn:
            tasks = store.tasks_by_sweep(conn, [sweep.sweep_id for sweep in sweeps])
            sweep_of = {task.task_id: task.sweep_id for group in tasks.values() for task in group}
            events = defaultdict[str, list[TaskEvent]](list)
            for event in store.sweep_events(conn, list(sweep_of)):
                events[sweep_of[event.task_id]].append(event)
        return [(sweep, tasks[sweep.sweep_id], events[sweep.sweep_id]) for sweep in sweeps]

    def _build_view(
        self, sweep: StoredSweep, tasks: Sequence[Task], events: Sequence[TaskEvent], *, is_live: bool = True
    ) -> SweepView:
        """is_live: with what running tasks have reached, read from their files."""
        document = read_sweep(sweep.document.encode())
        results = {event.task_id: event for event in events if event.kind == RESULT}
        stopped = {event.task_id for event in events if event.kind == STOPPED_EARLY}
        curves = {task.task_id: self._curves_of(task) for task in tasks if is_live and task.task_id not in results}
        metric = sweep.metric or usual_metric({name for of_task in curves.values() for name in of_task}) or ""
        is_lower = document.is_lower_better(metric)
        rows = []
        for task in tasks:
            of_task = curves.get(task.task_id, {})
            best = best_of(metric, of_task[metric], is_lower=is_lower) if metric in of_task else None
            rows.append(SweepRow(task, _read_result(results.get(task.task_id)) or best))
        name = str(document.fields.get("name") or "")
        view = SweepView(sweep.sweep_id, name, document, sweep.created_at, sweep.is_open, sweep.remark, metric, rows)
        best_id = next((row.task.task_id for row in view.ranked), None)
        marked = [
            replace(row, is_best=row.task.task_id == best_id, is_stopped_early=row.task.task_id in stopped)
            for row in rows
        ]
        return replace(view, rows=marked)

    def _curves_of(self, task: Task) -> Mapping[str, Curve]:
        if not task.latest_attempt_no:
            return {}
        with suppress(ModelmillError):  # its folder cannot be read at this moment
            return self._curves.read(self._tasks.get(task.user, task.task_id)).curves
        return {}


def _read_result(event: TaskEvent | None) -> Point | None:
    """What an ended task has reached."""
    if event is None or event.detail["value"] is None:
        return None
    return Point(event.detail["step"], event.detail["value"], float("nan"))
