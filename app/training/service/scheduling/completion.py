"""Step finish: an attempt has ended. Its log is copied and its cause determined; its task ends too, or is queued
again."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import takewhile
from typing import Any

from sqlalchemy import Connection

from app.kit.clock import from_text, to_text
from app.kit.errors import ModelmillError, Unavailable
from app.kit.text.json_values import JsonObject
from app.training import store
from app.training.errors import RayUnreachable
from app.training.gateway import RayJob, RayStatus
from app.training.metrics.counters import count_end
from app.training.model import Attempt, Event, FailureKind, State, Task, WaitingCode, WaitingReason, Workload
from app.training.model.failures import Failure, classify, is_retried
from app.training.model.shortfall import shortfall
from app.training.service.scheduling.context import Allocation, SchedulerContext, TickContext
from app.training.spec import read_spec

TAIL_LINES = 5000
TAIL_BYTES = 1 << 20
LOG_PATIENCE_S = 30
"""How long after a job's end its log is waited for, if Ray answers without it, or the disk has no room for it."""
QUICK = timedelta(minutes=5)
"""verl checks its GPUs within the first minutes, after it has read its configuration."""
RELEASED_ENDED, LOG_INCOMPLETE = "RELEASED_ENDED", "LOG_INCOMPLETE"
CONVERT = "convert"
"""Without this word a spec requests no conversion; the receiver checks whether it does."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """The outcome for a task whose attempt has ended."""

    event: Event | None
    """None: it was released before, and stays CANCELED."""
    fields: dict[str, Any]
    """Of the task."""
    detail: JsonObject
    """Of the event."""


def end(context: SchedulerContext, task: Task, attempt: Attempt, job: RayJob, tick: TickContext) -> Allocation | None:
    """Ends an attempt according to Ray's state of its job. It may take another tick, if Ray does not return the log.

    Args:
        attempt: the newest attempt of the task.
        job: Ray's state of it.

    Returns:
        What it still holds; None: its task is no longer active.
    """
    problem = ""
    try:
        log_bytes = _keep_log(context, task, attempt, job, tick)
    except Unavailable as error:
        if tick.elapsed(attempt.ended_at or tick.at) < timedelta(seconds=LOG_PATIENCE_S):
            logger.warning("The log of an ended job is not to be had yet: %s", error.message)
            return Allocation(task, attempt, job)
        logger.warning("The log of an ended job is not to be had; what was copied of it stays: %s", error.message)
        log_bytes, problem = None, error.message
    has_succeeded = job.status is RayStatus.SUCCEEDED
    failure = None if has_succeeded else _classify_failure(context, task, attempt, job)
    remark = _describe_shortfall(context, task, attempt, job) if has_succeeded else ""
    left = settle(context, task, attempt, failure, tick, log_bytes=log_bytes, remark=remark)
    if left is None and problem:
        with context.database.write() as conn:
            detail = {"attempt_no": attempt.attempt_no, "reason": problem}
            store.add_event(conn, task.task_id, LOG_INCOMPLETE, tick.at, detail)
    return left


def end_unknown(context: SchedulerContext, task: Task, attempt: Attempt, tick: TickContext) -> Allocation | None:
    """Ends an attempt that Ray, which answers, does not know.

    Args:
        attempt: the newest attempt of the task.

    Returns:
        As of `end`.
    """
    failure = classify("", "", None, "", "", was_stopped=_is_canceled(task))
    forgotten = replace(attempt, ray_status="")  # what it said last is not so any more
    return settle(context, task, forgotten, failure, tick)


def settle(
    context: SchedulerContext,
    task: Task,
    attempt: Attempt,
    failure: Failure | None,
    tick: TickContext,
    *,
    log_bytes: int | None = None,
    remark: str = "",
) -> Allocation | None:
    """Records that an attempt has ended, and the outcome for its task.

    The folder's end is recorded first, because that may be repeated.

    Args:
        failure: None: it succeeded.
        log_bytes: The size of the copy of its log; None: it stays what it was.
        remark: A remark on a success for its user.

    Returns:
        None: the task is no longer active. The allocation as it was if the task was changed meanwhile.
    """
    ended_at = attempt.ended_at or tick.at
    context.homes.folders.ended(task.user, attempt.folder, from_text(ended_at))
    outcome = _build_outcome(context, task, attempt, failure, tick, remark)
    if task.folder is not None and outcome.event is not Event.RETRY:
        context.homes.folders.ended(task.user, task.folder, from_text(ended_at))
    values: dict[str, Any] = {
        "ended_at": ended_at,
        "placement_pending_since": None,
        "ray_status": attempt.ray_status,
        "failure_kind": None,
        "message": "",
    }
    if log_bytes is not None:
        values["log_bytes"] = log_bytes
    if failure is not None:
        values |= {"failure_kind": failure.kind, "message": failure.summary}
    with context.database.write() as conn:
        changed = _apply_outcome(conn, task, outcome, tick)
        if changed is None:  # its user cancels or releases it at this moment: the next tick sees both
            return Allocation(task, attempt)
        store.change_attempt(conn, attempt, **values)
        if outcome.event is Event.RETRY:
            store.add_event(conn, task.task_id, "RETRY_SCHEDULED", tick.at, outcome.detail)
    count_end(failure.kind if failure else None)
    _log_end(changed, attempt, failure)
    if changed.state is State.SUCCEEDED and CONVERT in changed.spec_text:
        context.on_success(changed)
    return None


def _apply_outcome(conn: Connection, task: Task, outcome: Outcome, tick: TickContext) -> Task | None:
    if outcome.event is not None:
        return store.apply(conn, task, outcome.event, tick.at, detail=outcome.detail, **outcome.fields)
    changed = store.change(conn, task, tick.at, **outcome.fields)
    if changed is not None:
        store.add_event(conn, task.task_id, RELEASED_ENDED, tick.at, outcome.detail)
    return changed


def _build_outcome(
    context: SchedulerContext, task: Task, attempt: Attempt, failure: Failure | None, tick: TickContext, remark: str
) -> Outcome:
    detail: JsonObject = {"attempt_no": attempt.attempt_no}
    if task.is_terminal:
        detail["ray_status"] = attempt.ray_status
        return Outcome(None, {"error_summary": _summary_of_released(attempt, tick)}, detail)
    if failure is None:
        return Outcome(Event.SUCCEED, {"error_summary": remark}, detail)
    detail["failure_kind"] = failure.kind.value
    if _is_canceled(task):
        return Outcome(Event.STOPPED, {}, detail)
    if not _is_retried(context, task, failure.kind, tick):
        return Outcome(Event.FAIL, {"failure_kind": failure.kind, "error_summary": failure.summary}, detail)
    waits_s = 0 if failure.kind is FailureKind.PREEMPTED else context.options.retry_interval_s
    at = to_text(tick.now + timedelta(seconds=waits_s))
    costs = failure.kind not in (FailureKind.INSUFFICIENT_RESOURCES, FailureKind.PREEMPTED)
    fields = {
        "next_run_at": at,
        "waited_since": tick.at,
        "infra_retries": task.infra_retries - costs,
        "waiting": WaitingReason(WaitingCode.RETRY, {"at": at, "kind": failure.kind.value}),
    }
    return Outcome(Event.RETRY, fields, {**detail, "at": at})


def _is_retried(context: SchedulerContext, task: Task, kind: FailureKind, tick: TickContext) -> bool:
    """By its last consecutive attempts that found too few resources, if the last one did."""
    with context.database.read() as conn:
        *earlier, last = store.attempts_of(conn, task.task_id)
    lacking = list(
        takewhile(lambda attempt: attempt.failure_kind is FailureKind.INSUFFICIENT_RESOURCES, reversed(earlier))
    )
    tried_s = (
        tick.now - from_text(min((attempt.created_at for attempt in lacking), default=last.created_at))
    ).total_seconds()
    quick = list(takewhile(lambda attempt: _was_quick(attempt, tick), [last, *lacking]))
    return is_retried(
        kind,
        infra_retries=task.infra_retries,
        tried_s=tried_s,
        most_s=context.options.retry_most_s,
        quick_failures=len(quick),
    )


def _was_quick(attempt: Attempt, tick: TickContext) -> bool:
    """Excludes those that Ray could not place, or that were stopped for that: they have really waited."""
    return from_text(attempt.ended_at or tick.at) - from_text(attempt.created_at) < QUICK


def _classify_failure(context: SchedulerContext, task: Task, attempt: Attempt, job: RayJob) -> Failure:
    if attempt.failure_kind is not None and not _is_canceled(task):  # why we stopped it
        return Failure(attempt.failure_kind, attempt.message)
    tail = _read_tail(context, task, attempt, job).decode("utf-8", "replace")
    return classify(
        job.status,
        job.error_type,
        job.exit_code,
        job.message,
        tail,
        was_stopped=_is_canceled(task),
        counts_gpus=task.demand.claims_by_group,
    )


def _describe_shortfall(context: SchedulerContext, task: Task, attempt: Attempt, job: RayJob) -> str:
    if task.workload is not Workload.SFT:
        return ""
    total = read_spec(task.spec_text.encode())[0].total_training_steps
    return shortfall(_read_tail(context, task, attempt, job).decode("utf-8", "replace"), total)


def _is_canceled(task: Task) -> bool:
    return task.state in (State.CANCELING, State.CANCELED)


def _summary_of_released(attempt: Attempt, tick: TickContext) -> str:
    """The outcome of a released task."""
    if not attempt.ray_status:
        return f"It was let go before Ray said that it had ended; at {tick.at} Ray did not know it any more."
    ended_at = attempt.ended_at or tick.at
    return f"It was let go before Ray said that it had ended; it ended at {ended_at} as {attempt.ray_status}."


def _read_tail(context: SchedulerContext, task: Task, attempt: Attempt, job: RayJob) -> bytes:
    """Of the copy, which is complete by now; of Ray's log if there is no copy, because it could not be written."""
    tail = b""
    try:
        tail = context.copies.end(task.user, attempt.folder, TAIL_BYTES)
    except ModelmillError as error:
        logger.warning("The copy of the log cannot be read: %s", error.message)
    try:
        return tail or context.gateway.log_tail(job, TAIL_LINES)
    except RayUnreachable as error:
        logger.warning("Why it failed is judged without its log: %s", error.message)
        return b""


def _keep_log(context: SchedulerContext, task: Task, attempt: Attempt, job: RayJob, tick: TickContext) -> int | None:
    """Copies the log and returns its size; None: there is none, or something is in its place. It is tried again if Ray
    or the disk does not answer, or has no room."""
    try:
        return context.copies.replace(task.user, attempt.folder, _watch_chunks(context.gateway.log(job), tick))
    except Unavailable:
        raise
    except ModelmillError as error:
        logger.warning("The log of attempt %d is not copied: %s", attempt.attempt_no, error.message)
        return None


def _watch_chunks(chunks: Iterator[bytes], tick: TickContext) -> Iterator[bytes]:
    for chunk in chunks:
        tick.watch()
        yield chunk


def _log_end(task: Task, attempt: Attempt, failure: Failure | None) -> None:
    if failure is None:
        logger.info("Attempt %d has succeeded.", attempt.attempt_no)
    elif task.state is State.PENDING_RESOURCES:
        text = "Attempt %d ended with %s; the next one may start from %s on. %s"
        logger.info(text, attempt.attempt_no, failure.kind, task.next_run_at, failure.summary)
    else:
        text = "Attempt %d ended with %s; the task is %s. %s"
        logger.info(text, attempt.attempt_no, failure.kind, task.state, failure.summary)
