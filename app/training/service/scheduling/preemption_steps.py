"""Step preempt: who is to give way is asked to, runs on to its next checkpoint for a while, and is stopped."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from app.kit.clock import from_text
from app.kit.errors import ModelmillError
from app.training import store
from app.training.model import FailureKind, Task
from app.training.service.checkpoints import LATEST_FILE, checkpoint_folder
from app.training.service.folders import open_file
from app.training.service.scheduling.context import Allocation, SchedulerContext, TickContext
from app.training.service.scheduling.ray_sync import stop

ASKED, WITHDRAWN = "PREEMPTION_ASKED", "PREEMPTION_WITHDRAWN"
GAVE_WAY = "It gave way to a more urgent task, and goes on later."


def ask_to_give_way(
    context: SchedulerContext, allocations: Sequence[Allocation], giving_way: Collection[str], tick: TickContext
) -> None:
    """Note who is to give way from now on, and who need not any more.

    Args:
        allocations: Of all active tasks.
        giving_way: Ids of those that are to.
    """
    for allocation in allocations:
        task, attempt = allocation.task, allocation.attempt
        is_asked, is_needed = attempt.preempt_asked_at is not None, task.task_id in giving_way
        if is_asked is is_needed or attempt.failure_kind is not None:
            continue
        with context.database.write() as conn:
            store.change_attempt(conn, attempt, preempt_asked_at=tick.at if is_needed else None)
            detail = {"attempt_no": attempt.attempt_no}
            store.add_event(conn, task.task_id, ASKED if is_needed else WITHDRAWN, tick.at, detail)


def judge_preemption(context: SchedulerContext, allocation: Allocation, tick: TickContext) -> Allocation:
    """Stop an attempt that is to give way, once it has written a checkpoint since, or writes none in time.

    Raises:
        RayUnreachable: Ray does not answer.
    """
    task, attempt = allocation.task, allocation.attempt
    if attempt.preempt_asked_at is None or attempt.failure_kind is not None or not allocation.is_running:
        return allocation
    asked_at, grace = from_text(attempt.preempt_asked_at), timedelta(seconds=context.options.preemption_grace_s)
    written_at = last_written_at(context, task)
    has_written = written_at is not None and written_at > asked_at
    if task.folder is not None and not has_written and tick.elapsed(asked_at) < grace:
        return allocation
    return stop(context, allocation, FailureKind.PREEMPTED, GAVE_WAY)


def last_written_at(context: SchedulerContext, task: Task) -> datetime | None:
    """When the last whole checkpoint of a task was; None: there is none."""
    path = checkpoint_folder(context.homes, task)
    with suppress(ModelmillError):
        if path is not None:
            with open_file(context.homes, task.user, f"{path}/{LATEST_FILE}") as fd:
                return datetime.fromtimestamp(os.fstat(fd).st_mtime, UTC)
    return None
