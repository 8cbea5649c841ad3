"""Steps sync and cancel: what Ray says of an active task is written down, and what is to end is told so."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from app.kit.clock import from_text, to_text
from app.training import store
from app.training.gateway import RayJob, RayStatus
from app.training.model import Attempt, Event, State, Task
from app.training.service.scheduling.completion import end, end_unknown
from app.training.service.scheduling.context import Allocation, SchedulerContext, TickContext
from app.training.service.scheduling.ray_submission import launch

ARRIVAL_S = 30
"""So long Ray may take to have a job of which it was told, without having answered."""
logger = logging.getLogger(__name__)


def follow(desk: SchedulerContext, task: Task, attempt: Attempt, moment: TickContext) -> Allocation | None:
    """None: it is active no more. Raises RayUnreachable."""
    job = desk.gateway.job(attempt.submission_id)
    if job is None:
        if task.state is State.SUBMITTING:
            # Ray may have had it, and lost it before that was noted. Should it be on its way still, its name keeps
            # Ray from running it twice.
            logger.info("Ray does not have attempt %d, perhaps it never had; it is submitted.", attempt.attempt_no)
            return launch(desk, task, attempt, moment)
        if _may_arrive(task, attempt, moment.now):
            return Allocation(task, attempt)
        return end_unknown(desk, task, attempt, moment)
    was_submitting = task.state is State.SUBMITTING
    task, attempt = _noted(desk, task, attempt, job, moment)
    if was_submitting:
        logger.info("Ray had attempt %d already; it is followed from here on.", attempt.attempt_no)
    if job.status.is_terminal:
        return end(desk, task, attempt, job, moment)
    if task.state in (State.CANCELING, State.CANCELED) or attempt.failure_kind is not None:
        desk.gateway.stop(attempt.submission_id)  # on one that is PENDING it does nothing: again the next time
    return Allocation(task, attempt, job)


def _may_arrive(task: Task, attempt: Attempt, now: datetime) -> bool:
    """Ray was told of it, perhaps without an answer, and it was cancelled then: nobody would stop it later."""
    if task.state is not State.CANCELING or task.cancel_requested_at is None:
        return False
    is_on_its_way = bool(attempt.submit_payload) and not attempt.ray_status
    return is_on_its_way and now - from_text(task.cancel_requested_at) < timedelta(seconds=ARRIVAL_S)


def _noted(
    desk: SchedulerContext, task: Task, attempt: Attempt, job: RayJob, moment: TickContext
) -> tuple[Task, Attempt]:
    seen = _seen(attempt, job, moment.now)
    arrows = _arrows(task.state, job.status)
    if not seen and not arrows:
        return task, attempt
    with desk.database.write() as conn:
        if seen:
            attempt = store.change_attempt(conn, attempt, **seen)
        if "ray_status" in seen:
            detail = {"attempt_no": attempt.attempt_no, "status": job.status.value}
            store.add_event(conn, task.task_id, "RAY_STATUS", moment.text, detail)
        return _moved(conn, task, arrows, moment), attempt


def _moved(conn: Connection, task: Task, arrows: list[Event], moment: TickContext) -> Task:
    for arrow in arrows:
        changed = store.apply(conn, task, arrow, moment.text)
        if changed is None:  # its user cancels it at this moment
            return store.get_task(conn, task.task_id) or task
        task = changed
    return task


def _arrows(state: State, status: RayStatus) -> list[Event]:
    arrows = []
    if state is State.SUBMITTING:
        arrows.append(Event.ACCEPT)
    if state in (State.SUBMITTING, State.SUBMITTED) and status is RayStatus.RUNNING:
        arrows.append(Event.START)
    return arrows


def _seen(attempt: Attempt, job: RayJob, now: datetime) -> dict[str, Any]:
    """What is new of it. Its end lies never in the future, however the clock of Ray's head goes."""
    told: dict[str, Any] = {
        "ray_status": job.status.value,
        "ray_job_id": job.ray_job_id or attempt.ray_job_id,
        "driver_node_id": job.driver_node_id or attempt.driver_node_id,
        "exit_code": job.exit_code,
        "started_at": _time(job.started_ms) or attempt.started_at,
    }
    if job.status.is_terminal and attempt.ended_at is None:
        told["ended_at"] = min(_time(job.ended_ms) or to_text(now), to_text(now))
    return {name: value for name, value in told.items() if value != getattr(attempt, name)}


def _time(unix_ms: int | None) -> str | None:
    return to_text(datetime.fromtimestamp(unix_ms / 1000, UTC)) if unix_ms else None
