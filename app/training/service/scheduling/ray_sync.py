"""Steps sync and cancel: records what Ray reports about active tasks, and stops those that should end.

Also records what active tasks hold of the cluster, and which wait inside Ray for unavailable resources: a program that
requests placement groups is RUNNING for Ray while they are PENDING, possibly forever.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from app.homes.model import JOBS
from app.homes.service import Homes
from app.kit.clock import from_text, to_text
from app.kit.errors import ModelmillError
from app.training import store
from app.training.gateway import PlacementGroup, RayJob, RayStatus
from app.training.model import Attempt, Claim, Event, FailureKind, State, Task
from app.training.model.learning_curve import METRICS_FILE
from app.training.service.folders import open_file
from app.training.service.scheduling.admission import launch
from app.training.service.scheduling.completion import TAIL_LINES, end, end_unknown
from app.training.service.scheduling.context import Allocation, SchedulerContext, TickContext

ARRIVAL_S = 30
"""How long Ray, once it answers, may take to list a job that it received, if its answer was lost."""
logger = logging.getLogger(__name__)


def follow(context: SchedulerContext, task: Task, attempt: Attempt, tick: TickContext) -> Allocation | None:
    """Synchronizes an attempt with its job on Ray.

    Args:
        attempt: the newest attempt of the task.

    Returns:
        What it still holds; None: its task is no longer active.

    Raises:
        RayUnreachable: Nothing has changed.
    """
    job = context.gateway.job(attempt.submission_id)
    if job is None:
        if task.state is State.SUBMITTING:
            # Ray may have had it, and lost it before that was noted. Should it be on its way still, its name keeps
            # Ray from running it twice.
            logger.info("Ray does not have attempt %d, perhaps it never had; it is submitted.", attempt.attempt_no)
            return launch(context, task, attempt, tick)
        if _may_arrive(task, attempt, tick):
            return Allocation(task, attempt)
        return end_unknown(context, task, attempt, tick)
    was_submitting = task.state is State.SUBMITTING
    task, attempt = _record(context, task, attempt, job, tick)
    if was_submitting:
        logger.info("Ray had attempt %d already; it is followed from here on.", attempt.attempt_no)
    if job.status.is_terminal:
        return end(context, task, attempt, job, tick)
    if task.state in (State.CANCELING, State.CANCELED) or attempt.failure_kind is not None:
        context.gateway.stop(attempt.submission_id)  # on a PENDING one it does nothing: it is repeated the next time
    return Allocation(task, attempt, job)


def _may_arrive(task: Task, attempt: Attempt, tick: TickContext) -> bool:
    """Ray received it, perhaps without an answer, and it was cancelled then: nothing would stop it later."""
    if task.state not in (State.CANCELING, State.CANCELED) or task.cancel_requested_at is None:
        return False
    is_on_its_way = bool(attempt.submit_payload) and not attempt.ray_status
    since = max(from_text(task.cancel_requested_at), tick.answering_since)
    return is_on_its_way and tick.elapsed(since) < timedelta(seconds=ARRIVAL_S)


def _record(
    context: SchedulerContext, task: Task, attempt: Attempt, job: RayJob, tick: TickContext
) -> tuple[Task, Attempt]:
    changes = _collect_changes(attempt, job, tick.now)
    events = _list_events(task.state, job.status)
    if not changes and not events:
        return task, attempt
    with context.database.write() as conn:
        if changes:
            attempt = store.change_attempt(conn, attempt, **changes)
        if "ray_status" in changes:
            detail = {"attempt_no": attempt.attempt_no, "status": job.status.value}
            store.add_event(conn, task.task_id, "RAY_STATUS", tick.at, detail)
        return _apply_all(conn, task, events, tick), attempt


def _apply_all(conn: Connection, task: Task, events: list[Event], tick: TickContext) -> Task:
    for event in events:
        changed = store.apply(conn, task, event, tick.at)
        if changed is None:  # its user cancels it at this moment
            return store.get_task(conn, task.task_id) or task
        task = changed
    return task


def _list_events(state: State, status: RayStatus) -> list[Event]:
    events = []
    if state is State.SUBMITTING:
        events.append(Event.ACCEPT)
    if state in (State.SUBMITTING, State.SUBMITTED) and status is RayStatus.RUNNING:
        events.append(Event.START)
    return events


def _collect_changes(attempt: Attempt, job: RayJob, now: datetime) -> dict[str, Any]:
    """The changes. Its end is never in the future, whatever the clock of Ray's head shows."""
    reported: dict[str, Any] = {
        "ray_status": job.status.value,
        "ray_job_id": job.ray_job_id or attempt.ray_job_id,
        "driver_node_id": job.driver_node_id or attempt.driver_node_id,
        "exit_code": job.exit_code,
        "started_at": _format_time(job.started_ms) or attempt.started_at,
    }
    if job.status.is_terminal and attempt.ended_at is None:
        reported["ended_at"] = min(_format_time(job.ended_ms) or to_text(now), to_text(now))
    return {name: value for name, value in reported.items() if value != getattr(attempt, name)}


def _format_time(unix_ms: int | None) -> str | None:
    return to_text(datetime.fromtimestamp(unix_ms / 1000, UTC)) if unix_ms else None


MAX_WAIT_S = 900
"""For tasks without their own. Ray gives up a driver that finds no place after the same time."""


def with_claim(allocation: Allocation, groups: Sequence[PlacementGroup]) -> Allocation:
    """groups: of all jobs."""
    if not allocation.is_running:
        return allocation
    demand, attempt = allocation.task.demand, allocation.attempt
    if not demand.claims_by_group:
        node = attempt.driver_node_id
        claim = Claim({node: float(demand.gpus)}, {node: demand.cpus}) if node else Claim()
        return replace(allocation, claim=claim)
    gpus: dict[str, float] = defaultdict(float)
    cpus: dict[str, float] = defaultdict(float)
    for node_id, some_gpus, some_cpus in (bundle for group in _of(allocation, groups) for bundle in group.bundles):
        if node_id:
            gpus[node_id] += some_gpus
            cpus[node_id] += some_cpus
    return replace(allocation, claim=Claim(dict(gpus), dict(cpus)))


def judge_wait(
    context: SchedulerContext, allocation: Allocation, groups: Sequence[PlacementGroup], tick: TickContext
) -> Allocation:
    """Records since when an attempt waits for a placement group, and ends it if that is too long.

    Args:
        groups: of all of Ray.

    Raises:
        RayUnreachable: The attempt could not be stopped.
    """
    task, attempt = allocation.task, allocation.attempt
    if not allocation.is_running or attempt.failure_kind is not None:
        return allocation
    is_waiting = any(not group.is_placed for group in _of(allocation, groups))
    since = attempt.placement_pending_since
    if is_waiting != (since is not None):
        with context.database.write() as conn:
            began = {"placement_pending_since": tick.at} if is_waiting else _record_placement(tick)
            changed = store.change_attempt(conn, attempt, **began)
        return replace(allocation, attempt=changed)
    max_wait_s = task.max_wait_s or MAX_WAIT_S
    if since is None or tick.elapsed(since) < timedelta(seconds=max_wait_s):
        return allocation
    message = f"The cluster had no room for its placement group for {max_wait_s} seconds, so it was stopped."
    return stop(context, allocation, FailureKind.INSUFFICIENT_RESOURCES, message)


def _record_placement(tick: TickContext) -> dict[str, Any]:
    """It was silent while it waited."""
    return {"placement_pending_since": None, "output_at": tick.at}


def judge_run(context: SchedulerContext, allocation: Allocation, tick: TickContext) -> Allocation:
    """Stops an attempt that has reached its time limit.

    Raises:
        RayUnreachable: Ray does not answer.
    """
    attempt, max_run_s = allocation.attempt, allocation.task.max_run_s
    if max_run_s is None or not allocation.is_running or attempt.failure_kind is not None or not attempt.started_at:
        return allocation
    began = max(from_text(attempt.started_at), from_text(attempt.created_at))  # by Ray's clock, which may be slow
    if tick.elapsed(began) < timedelta(seconds=max_run_s):
        return allocation
    message = f"It ran for {max_run_s} seconds, as long as it may (max_run_s), and was stopped."
    return stop(context, allocation, FailureKind.TIME_LIMIT, message)


def stop(context: SchedulerContext, allocation: Allocation, kind: FailureKind, message: str) -> Allocation:
    """Stops an attempt. The cause is recorded before Ray is called; while it still runs, Ray is called again at each
    tick: see follow.

    Args:
        kind: The cause, which decides what happens to the task.
        message: The cause as a sentence.
    """
    attempt = allocation.attempt
    with context.database.write() as conn:
        changed = store.change_attempt(conn, attempt, failure_kind=kind, message=message)
    logger.info("Attempt %d is stopped: %s", attempt.attempt_no, message)
    context.gateway.stop(attempt.submission_id)
    return replace(allocation, attempt=changed)


def _of(allocation: Allocation, groups: Sequence[PlacementGroup]) -> list[PlacementGroup]:
    job_id = allocation.attempt.ray_job_id
    return [group for group in groups if job_id and group.ray_job_id == job_id]


def copy_log(context: SchedulerContext, allocation: Allocation, tick: TickContext) -> None:
    """Copies new lines of a log; stops an attempt that has reached its idle limit.

    Raises:
        RayUnreachable: Ray does not answer.
        ModelmillError: The home of the user cannot be written to.
    """
    attempt, job = allocation.attempt, allocation.job
    if job is None or job.status.is_terminal or not job.driver_node_id:
        return
    tail, log_bytes = context.gateway.log_tail(job, TAIL_LINES), attempt.log_bytes
    if tail:
        is_whole = tail.count(b"\n") < TAIL_LINES
        log_bytes = context.copies.grow(allocation.task.user, attempt.folder, tail, is_whole=is_whole)
    if log_bytes != attempt.log_bytes:
        with context.database.write() as conn:
            store.change_attempt(conn, attempt, log_bytes=log_bytes, output_at=tick.at)
    else:
        _judge_silence(context, allocation, tick)


def _judge_silence(context: SchedulerContext, allocation: Allocation, tick: TickContext) -> None:
    task, attempt = allocation.task, allocation.attempt
    max_idle_s = task.max_idle_s or context.options.max_idle_s
    if not max_idle_s or not allocation.is_running or attempt.failure_kind is not None:
        return
    if attempt.placement_pending_since is not None or not attempt.started_at:
        return
    limit = timedelta(seconds=max_idle_s)
    ages = [tick.elapsed(at) for at in (attempt.created_at, attempt.started_at, attempt.output_at) if at]
    if min(ages) < limit:  # its metrics are checked only if its log is silent
        return
    told_at = last_told_at(context.homes, task.user, attempt)
    if told_at is not None and tick.elapsed(told_at) < limit:
        return
    message = f"It wrote nothing for {max_idle_s} seconds (max_idle_s), and was stopped."
    stop(context, allocation, FailureKind.IDLE_LIMIT, message)


def last_told_at(homes: Homes, user: str, attempt: Attempt) -> datetime | None:
    """When an attempt last reported metrics; None: never."""
    path = homes.options.logical(user, f"{JOBS}/{attempt.folder}/{METRICS_FILE}")
    try:
        with open_file(homes, user, path) as fd:
            return datetime.fromtimestamp(os.fstat(fd).st_mtime, UTC)
    except ModelmillError:
        return None
