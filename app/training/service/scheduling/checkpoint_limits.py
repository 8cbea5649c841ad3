"""Step prune: deletes checkpoints that are neither among the last nor among the best, for tasks with a limit."""

from __future__ import annotations

import logging

from app.homes.home_paths import home_path_of
from app.training import store
from app.training.model import Task
from app.training.model.checkpoint_order import rank, superfluous
from app.training.service.checkpoints import checkpoint_folder, complete_step, steps_in
from app.training.service.curves import CurveReader
from app.training.service.folders import folders_of
from app.training.service.scheduling.context import SchedulerContext, TickContext
from app.training.service.views import TaskView
from app.training.spec import TaskSpec, read_spec

KEEP_BEST = "keep_best"
"""Without this word a spec keeps no best checkpoints."""
CHECKPOINT_DELETED = "CHECKPOINT_DELETED"
MOST_AT_ONCE = 4
logger = logging.getLogger(__name__)


def prune(
    context: SchedulerContext, reader: CurveReader, task: Task, tick: TickContext, *, has_ended: bool = False
) -> None:
    """Deletes checkpoints that a task no longer keeps. Raises errors of homes and of the spec.

    Args:
        reader: reads the task's metrics, which rank its checkpoints.
        has_ended: all of them are deleted now, because there is no later pass.
    """
    if KEEP_BEST not in task.spec_text:
        return
    spec, _ = read_spec(task.spec_text.encode())
    path = checkpoint_folder(context.homes, task)
    if spec.keep_best is None or path is None:
        return
    for step in _find_superfluous(context, reader, task, spec, path)[: None if has_ended else MOST_AT_ONCE]:
        tick.watch()
        _delete(context, task, f"{path}/global_step_{step}", step, tick)


def _find_superfluous(
    context: SchedulerContext, reader: CurveReader, task: Task, spec: TaskSpec, path: str
) -> list[int]:
    last, best = spec.keep_checkpoints or 1, spec.keep_best or 1
    steps = steps_in(context.homes, task.user, path)
    complete = complete_step(context.homes, task.user, path) if len(steps) > last else None
    if complete is None:
        return []
    with context.database.read() as conn:
        attempts = store.attempts_of(conn, task.task_id)
    view = TaskView(task, attempts, folders=folders_of(context.homes, task.user, attempts))
    ranking = rank(steps, reader.read(view).curves, spec.best_metric)
    return superfluous(steps, ranking, last=last, best=best, complete=complete)


def _delete(context: SchedulerContext, task: Task, path: str, step: int, tick: TickContext) -> None:
    with context.homes.files.opened(task.user) as home:
        home.remove_tree(home_path_of(context.homes.options, task.user, path).inner)
    with context.database.write() as conn:
        store.add_event(conn, task.task_id, CHECKPOINT_DELETED, tick.at, {"step": step})
    logger.info("The checkpoint of step %d is neither among the last nor the best, and was deleted.", step)
