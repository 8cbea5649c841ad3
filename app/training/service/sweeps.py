"""Sweeps: tasks that differ in a few fields, submitted at once and compared by one figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Lock

from pydantic import JsonValue

from app.kit.errors import ModelmillError
from app.training import store
from app.training.errors import SweepNotFound, TaskFinished
from app.training.model import Task
from app.training.model.checkpoint_order import usual_metric
from app.training.model.learning_curve import Point, best_of, is_lower_better
from app.training.service.curves import CurveReader
from app.training.service.tasks import Tasks
from app.training.spec import TaskSpec, read_spec
from app.training.spec.changes import differences
from app.training.spec.sweeps import read_sweep

MOST_REMEMBERED = 2000
"""Ended tasks, whose metrics no longer change."""


@dataclass(frozen=True)
class SweepRow:
    """A task of a sweep."""

    task: Task
    values: Mapping[str, JsonValue]
    """Of the fields that differ."""
    best: Point | None = None
    """Of the sweep's metric; None: it has reported none."""
    is_best: bool = False
    """No other task of the sweep has a better one."""


@dataclass(frozen=True)
class SweepView:
    sweep_id: str
    fields: Sequence[str] = ()
    """Those that differ between its tasks."""
    metric: str = ""
    """The metric that they are compared by; "": they have reported none."""
    rows: Sequence[SweepRow] = field(default=())
    """In the order of submission."""

    @property
    def name(self) -> str:
        """What the names of its tasks start with, without their values."""
        return self.rows[0].task.name.rpartition(" · ")[0] if self.rows else ""

    @property
    def has_ended(self) -> bool:
        return all(row.task.is_terminal for row in self.rows)

    @property
    def ranked(self) -> list[SweepRow]:
        """Those with a value, the best first."""
        sign = 1 if is_lower_better(self.metric) else -1
        judged = [(sign * row.best.value, row.task.seq, row) for row in self.rows if row.best is not None]
        return [row for *_, row in sorted(judged, key=lambda one: one[:2])]


class TaskSweeps:
    """Everything belongs to the user: another user's sweep is SweepNotFound."""

    def __init__(self, tasks: Tasks, curves: CurveReader) -> None:
        self._tasks = tasks
        self._curves = curves
        self._ended: dict[str, Mapping[str, Point]] = {}
        self._lock = Lock()

    def submit(self, user: str, body: bytes, *, now: datetime, is_admin: bool = False) -> SweepView:
        """Adds the tasks of a sweep to the end of the queue, all or none.

        Args:
            body: a task with `vary`, YAML or JSON: see SweepSpec.
            is_admin: As of Tasks.submit.

        Raises like Tasks.submit.
        """
        tasks = self._tasks.submit_sweep(user, read_sweep(body), now=now, is_admin=is_admin)
        return self.view(user, tasks[0].sweep_id)

    def view(self, user: str, sweep_id: str) -> SweepView:
        """Raises SweepNotFound."""
        tasks = self._tasks_of(user, sweep_id)
        specs = [read_spec(task.spec_text.encode())[0] for task in tasks]
        differing = differences(specs)
        figures = [self._figures(task) for task in tasks]
        metric = _metric(specs, figures)
        rows = [
            SweepRow(task, {one.field: one.values[at] for one in differing}, figures[at].get(metric))
            for at, task in enumerate(tasks)
        ]
        view = SweepView(sweep_id, [one.field for one in differing], metric, rows)
        best = {row.task.task_id for row in view.ranked[:1]}
        return replace(view, rows=[replace(row, is_best=row.task.task_id in best) for row in rows])

    def require(self, user: str, sweep_id: str) -> None:
        """Raises SweepNotFound."""
        self._tasks_of(user, sweep_id)

    def cancel(self, user: str, sweep_id: str, *, now: datetime) -> SweepView:
        """Cancels its tasks that have not ended. Raises SweepNotFound."""
        for task in self._tasks_of(user, sweep_id):
            with suppress(TaskFinished):
                self._tasks.cancel(user, task.task_id, now=now)
        return self.view(user, sweep_id)

    def _tasks_of(self, user: str, sweep_id: str) -> list[Task]:
        is_name = sweep_id.isascii() and sweep_id.isprintable()
        with self._tasks.database.read() as conn:
            tasks = store.of_sweep(conn, user, sweep_id) if is_name and sweep_id else []
        if not tasks:
            raise SweepNotFound(f"There is no sweep {sweep_id}.", hint="The tasks of a sweep name it.")
        return tasks

    def _figures(self, task: Task) -> Mapping[str, Point]:
        """The best value of each metric that a task has reported."""
        with self._lock:
            if task.task_id in self._ended:
                return self._ended[task.task_id]
        curves = {}
        with suppress(ModelmillError):  # its folder cannot be read at this moment
            curves = dict(self._curves.read(self._tasks.get(task.user, task.task_id)).curves)
        told = {name: best for name, curve in curves.items() if (best := best_of(name, curve)) is not None}
        if task.is_terminal and told:
            with self._lock:
                self._ended[task.task_id] = told
                for oldest in list(self._ended)[:-MOST_REMEMBERED]:
                    del self._ended[oldest]
        return told


def _metric(specs: Iterable[TaskSpec], figures: Sequence[Mapping[str, Point]]) -> str:
    named = next((spec.best_metric for spec in specs if spec.best_metric), None)
    return named or usual_metric({name for told in figures for name in told}) or ""
