"""Step sweep: of sweeps whose tasks are not all there or not all ended, note what tasks have reached, stop those that
fall behind, and add the next ones.

What is noted are events of the tasks. Every decision follows from these and from the stored tasks alone.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.homes.model import COMMON
from app.kit.errors import ModelmillError
from app.training import store
from app.training.errors import TooManyTasks
from app.training.model import Event, State, Task, TaskEvent
from app.training.model.checkpoint_order import usual_metric
from app.training.model.learning_curve import Curve, best_of
from app.training.model.sweep import Point, RungValue, Search, new_rungs
from app.training.service.curves import CurveReader
from app.training.service.folders import folders_of
from app.training.service.scheduling.context import SchedulerContext, TickContext
from app.training.service.scheduling.optuna_search import Report, SearcherMissing, Trial, may_continue, propose_point
from app.training.service.scheduling.rung_watch import WatchedTask
from app.training.service.submission import SweepChanged, TaskSubmission
from app.training.service.views import TaskView
from app.training.spec.sweeps import SweepDocument, read_sweep
from app.training.store import StoredSweep
from app.training.store.sweeps import REACHED, RESULT, STOPPED_EARLY

NO_OPTUNA = "Optuna is not installed where training is scheduled."
NO_VALUES = "Its last {count} tasks ended without a value of {metric}."
NO_OTHERS = "There are no other values to try."
NOT_ADDED = "The next task was refused: {problem}"
BEHIND = "Stopped early: at step {step} its {metric} of {value:.4g} was behind that of other tasks."
MOST_FAILURES = 5
"""The number of tasks in a row that may end without a value before a search is given up."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """A sweep, its tasks, and what they have reached."""

    sweep: StoredSweep
    document: SweepDocument
    tasks: Sequence[Task]
    results: Mapping[str, float | None]
    """By ended task; None: it reported nothing."""
    reports: Sequence[Report] = ()
    """Of all comparisons, in the order of the record."""
    stopped: Mapping[str, int] = field(default_factory=dict)
    """Steps of comparisons, by the tasks that were stopped at them."""

    def passed(self, task_id: str) -> int:
        """How many comparisons of a task are on record."""
        return sum(report.task_id == task_id for report in self.reports)

    @property
    def room(self) -> int:
        """How many tasks are to be added."""
        if self.sweep.remark:
            return 0
        unended = sum(not task.is_terminal for task in self.tasks)
        return max(0, min(self.document.size - len(self.tasks), self.document.concurrency - unended))

    @property
    def has_ended(self) -> bool:
        is_whole = bool(self.sweep.remark) or len(self.tasks) >= self.document.size
        return is_whole and all(task.task_id in self.results for task in self.tasks)

    @property
    def failures(self) -> int:
        """How many of the tasks that ended last have no value."""
        ended = sorted((task for task in self.tasks if task.is_terminal), key=lambda task: task.ended_at or "")
        values = [self.results.get(task.task_id) for task in reversed(ended)]
        return next((count for count, value in enumerate(values) if value is not None), len(values))

    @property
    def trials(self) -> list[Trial]:
        return [self._make_trial(task) for task in self.tasks]

    def _make_trial(self, task: Task) -> Trial:
        point, stopped_at = dict(task.sweep_point), self.stopped.get(task.task_id)
        if stopped_at is None and task.state is not State.SUCCEEDED:
            return Trial(point, task.is_terminal)
        return Trial(point, task.is_terminal, self.results.get(task.task_id), stopped_at)


def progress_of(sweep: StoredSweep, tasks: Sequence[Task], events: Sequence[TaskEvent]) -> Progress:
    """events: of its tasks, as of store.sweep_events."""
    results: dict[str, float | None] = {}
    reports, stopped = [], {}
    for event in events:
        if event.kind == RESULT:
            results[event.task_id] = event.detail["value"]
            continue
        reports.append(Report(event.task_id, event.detail["step"], event.detail["value"]))
        if event.kind == STOPPED_EARLY:
            stopped[event.task_id] = event.detail["step"]
    return Progress(sweep, read_sweep(sweep.document.encode()), tasks, results, reports, stopped)


def read_progress(context: SchedulerContext) -> list[Progress]:
    """Of all sweeps that are looked after."""
    with context.database.read() as conn:
        sweeps = store.open_sweeps(conn)
        if not sweeps:
            return []
        tasks = store.tasks_by_sweep(conn, [sweep.sweep_id for sweep in sweeps])
        events: dict[str, list[TaskEvent]] = defaultdict(list)
        by_task = {task.task_id: task.sweep_id for group in tasks.values() for task in group}
        for event in store.sweep_events(conn, list(by_task)):
            events[by_task[event.task_id]].append(event)
    return [progress_of(sweep, tasks[sweep.sweep_id], events[sweep.sweep_id]) for sweep in sweeps]


def follow_sweep(
    context: SchedulerContext, submission: TaskSubmission, reader: CurveReader, progress: Progress, tick: TickContext
) -> Progress:
    """One step of a sweep.

    Args:
        context: of the scheduler.
        submission: adds tasks.
        reader: reads what tasks report.
        progress: the sweep as just read.
        tick: the current one.

    Returns:
        What it has come to, without tasks that were added.

    Raises:
        DatabaseUnavailable, HomeUnavailable: The next tick continues it.
    """
    for task in progress.tasks:
        if task.task_id not in progress.results and (task.is_terminal or task.state is State.RUNNING):
            tick.watch()
            progress = _look_at(context, reader, progress, task, tick)
    if progress.room:
        _add(submission, context, progress, tick)
    elif progress.has_ended:
        with context.database.write() as conn:
            store.change_sweep(conn, progress.sweep.sweep_id, is_open=False)
        logger.info("All tasks of the sweep %s have ended.", progress.sweep.sweep_id)
    return progress


def collect_watched_tasks(context: SchedulerContext, progress: Progress) -> dict[str, WatchedTask]:
    """Of a sweep with early stop the running tasks that may come to a comparison, by id."""
    rule = progress.document.early_stop
    if rule is None or progress.sweep.remark:
        return {}
    running = (task for task in progress.tasks if task.state is State.RUNNING and task.task_id not in progress.stopped)
    return {
        task.task_id: WatchedTask(
            _build_view(context, task), rule, progress.sweep.metric, progress.passed(task.task_id)
        )
        for task in running
    }


def _look_at(
    context: SchedulerContext, reader: CurveReader, progress: Progress, task: Task, tick: TickContext
) -> Progress:
    rule = progress.document.early_stop
    if rule is None and not task.is_terminal:
        return progress
    curves = reader.read(_build_view(context, task)).curves
    metric = progress.sweep.metric or usual_metric(curves) or ""
    curve = curves.get(metric, Curve())
    if rule is not None:
        for rung in new_rungs(curve, rule, progress.passed(task.task_id)):
            progress = _judge(context, progress, task, rung, tick)
            if task.task_id in progress.stopped:
                break
    return _measure(context, progress, task, metric, curve, tick) if task.is_terminal else progress


def _build_view(context: SchedulerContext, task: Task) -> TaskView:
    with context.database.read() as conn:
        attempts = store.attempts_of(conn, task.task_id)
    return TaskView(task, attempts, folders=folders_of(context.homes, task.user, attempts))


def _judge(context: SchedulerContext, progress: Progress, task: Task, rung: RungValue, tick: TickContext) -> Progress:
    """Note a comparison, and stop the task if it falls behind. Of an ended task its values count for the others."""
    document, metric = progress.document, progress.sweep.metric
    reports = [*progress.reports, Report(task.task_id, rung.step, rung.value)]
    try:
        is_kept = document.early_stop is None or may_continue(
            reports, document.early_stop, is_lower_better=bool(document.is_lower_better(metric))
        )
    except SearcherMissing:
        return _refuse(context, progress, NO_OPTUNA)
    detail = {"metric": metric, "step": rung.step, "value": rung.value}
    is_stopped = not is_kept and not task.is_terminal
    with context.database.write() as conn:
        if is_stopped:
            summary = BEHIND.format(**detail)
            stopping = store.apply(
                conn, task, Event.CANCEL, tick.at, cancel_requested_at=tick.at, error_summary=summary
            )
            if stopping is None:
                return progress  # it has changed at this moment: the next tick judges it
        store.add_event(conn, task.task_id, STOPPED_EARLY if is_stopped else REACHED, tick.at, detail)
    if not is_stopped:
        return replace(progress, reports=reports)
    logger.info("Task %s is stopped: at step %d it was behind others.", task.task_id, rung.step)
    return replace(progress, reports=reports, stopped={**progress.stopped, task.task_id: rung.step})


def _measure(
    context: SchedulerContext, progress: Progress, task: Task, metric: str, curve: Curve, tick: TickContext
) -> Progress:
    """Note the best that an ended task has reported: its files do not stay."""
    is_lower = progress.document.is_lower_better(metric)
    best = best_of(metric, curve, is_lower=is_lower) if len(curve) else None
    value = best.value if best else None
    detail = {"metric": metric, "step": best.step if best else None, "value": value}
    with context.database.write() as conn:
        store.add_event(conn, task.task_id, RESULT, tick.at, detail)
        if best is not None and not progress.sweep.metric:
            store.change_sweep(conn, progress.sweep.sweep_id, metric=metric)
    sweep = replace(progress.sweep, metric=progress.sweep.metric or (metric if best else ""))
    return replace(progress, sweep=sweep, results={**progress.results, task.task_id: value})


def _add(submission: TaskSubmission, context: SchedulerContext, progress: Progress, tick: TickContext) -> None:
    try:
        points = _choose_next_points(progress)
        if points:
            submission.extend(progress.sweep, progress.document, points, len(progress.tasks), tick.now)
            logger.info("The sweep %s has %d more tasks.", progress.sweep.sweep_id, len(points))
        else:
            failures = progress.failures
            remark = NO_VALUES.format(count=failures, metric=progress.sweep.metric)
            _refuse(context, progress, remark if failures >= MOST_FAILURES else NO_OTHERS)
    except SweepChanged:
        logger.info("The sweep %s has changed meanwhile.", progress.sweep.sweep_id)
    except TooManyTasks as error:
        logger.info("The sweep %s goes on later: %s", progress.sweep.sweep_id, error.message)
    except SearcherMissing:
        _refuse(context, progress, NO_OPTUNA)
    except ModelmillError as error:
        if error.can_retry:  # the database or the homes are unreachable
            raise
        if not (context.homes.options.root / COMMON).is_dir():  # the storage is not mounted, so no path is there
            logger.warning("The sweep %s goes on once the data homes are there again.", progress.sweep.sweep_id)
            return
        _refuse(context, progress, NOT_ADDED.format(problem=error.message))


def _choose_next_points(progress: Progress) -> list[Point]:
    document, tasks = progress.document, progress.tasks
    if document.spec.search is not Search.OPTUNA:
        return document.points[len(tasks) : len(tasks) + progress.room]
    if progress.failures >= MOST_FAILURES:
        return []
    trials, points = progress.trials, []
    for _ in range(progress.room):
        point = propose_point(
            document.spec.values,
            trials,
            seed=document.spec.seed,
            is_lower_better=bool(document.is_lower_better(progress.sweep.metric)),
        )
        if point is None:
            break
        points.append(point)
        trials = [*trials, Trial(point)]
    return points


def _refuse(context: SchedulerContext, progress: Progress, remark: str) -> Progress:
    """No more tasks are added."""
    if progress.sweep.remark == remark:
        return progress
    with context.database.write() as conn:
        store.change_sweep(conn, progress.sweep.sweep_id, remark=remark)
    logger.warning("No more tasks are added to the sweep %s: %s", progress.sweep.sweep_id, remark)
    return replace(progress, sweep=replace(progress.sweep, remark=remark))
