"""Steps admit and submit. Which tasks are admitted is decided by `model.gang`; of the others it is noted why they wait.

An admitted task gets an attempt, a folder, and is given to Ray. The attempt is on record before Ray hears of it, and
its name follows from the task: after a crash in between the next scheduler submits the same name again, or finds that
Ray has it.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, TypeVar

from app.homes.errors import HomeUnavailable, PathRefused, disk_errors
from app.homes.model import COMMON
from app.kit.clock import from_text
from app.kit.errors import ModelmillError
from app.kit.files import data_folder
from app.training import store
from app.training.errors import RayRefused
from app.training.gateway import Submission
from app.training.metrics.counters import WAIT_SECONDS
from app.training.model import Attempt, Event, FailureKind, State, Task, WaitingCode, WaitingReason, submission_id
from app.training.model.failures import Failure
from app.training.model.gang import Queued
from app.training.service.checkpoints import checkpoints_of_task, resume_path
from app.training.service.demonstration import put_program
from app.training.service.scheduling.attempt_files import write_files
from app.training.service.scheduling.completion import settle
from app.training.service.scheduling.context import Allocation, SchedulerContext, TickContext
from app.training.service.scheduling.secrets import BLOT
from app.training.service.submission_checks import check_paths
from app.training.spec import read_spec
from app.training.store import QueueEntry
from app.training.workloads import NO_ENVIRONMENT, PLACEMENT, PLACEMENT_FOLDER, submission_of

T = TypeVar("T")
BATCH = 200
"""Tasks per transaction, so that other writers do not wait long."""
FRESH_AT_ONCE = 500
"""How many new tasks get their reason in one tick: if thousands arrive at once, the others are not delayed."""


def read_queue(context: SchedulerContext) -> list[QueueEntry]:
    with context.database.read() as conn:
        return store.queue(conn)


def as_queued(entry: QueueEntry, latest_retry_at: str) -> Queued:
    """latest_retry_at: One that is to be tried again only after that waits for a time by a clock that was set back."""
    next_run_at = entry.next_run_at
    return Queued(
        entry.task_id,
        entry.demand,
        entry.backfill,
        None if next_run_at is None or next_run_at > latest_retry_at else next_run_at,
        entry.user,
        entry.max_run_s,
        entry.priority,
        entry.environment,
    )


def write_reasons(
    context: SchedulerContext, queue: Sequence[QueueEntry], reasons: Mapping[str, WaitingReason], tick: TickContext
) -> None:
    """Records why tasks wait, if that has changed.

    The number of tasks ahead changes with every task that leaves the queue: it is counted on request.

    Args:
        queue: all waiting tasks, in order.
        reasons: by task; a missing one keeps its own.
    """
    fresh = []
    changed: dict[WaitingCode, list[tuple[str, WaitingReason]]] = defaultdict(list)
    for entry in queue:
        reason = _simplify_reason(reasons.get(entry.task_id))
        if reason is None:
            continue
        if entry.state is State.QUEUED:
            fresh.append((entry.task_id, reason))
        elif reason != entry.waiting and not _is_noted(reason, entry.waiting):
            changed[reason.code].append((entry.task_id, reason))
    _begin_to_wait(context, fresh[:FRESH_AT_ONCE], tick)
    for reasons_of_code in changed.values():
        _note(context, reasons_of_code, tick)


def write_reason_for_all(
    context: SchedulerContext, queue: Sequence[QueueEntry], reason: WaitingReason, tick: TickContext
) -> None:
    """Records one reason for all tasks, without a check for room: states stay.

    Args:
        queue: waiting tasks, first the head.
        reason: why they wait.
    """
    _note(context, [(entry.task_id, reason) for entry in queue if entry.waiting != reason], tick)


def _begin_to_wait(context: SchedulerContext, fresh: Iterable[tuple[str, WaitingReason]], tick: TickContext) -> None:
    for batch in _split_into_batches(fresh):
        tick.watch()
        with context.database.write() as conn:
            for task_id, reason in batch:
                task = store.get_task(conn, task_id)
                if task is not None and task.state is State.QUEUED:
                    store.apply(conn, task, Event.WAIT, tick.at, waiting=reason)


def _note(context: SchedulerContext, reasons: Iterable[tuple[str, WaitingReason]], tick: TickContext) -> None:
    """The same reason of several tasks in one statement."""
    alike: list[tuple[WaitingReason, list[str]]] = []
    for task_id, reason in reasons:
        if alike and alike[-1][0] == reason:
            alike[-1][1].append(task_id)
        else:
            alike.append((reason, [task_id]))
    for reason, task_ids in alike:
        for batch in _split_into_batches(task_ids):
            tick.watch()
            with context.database.write() as conn:
                store.note_waiting(conn, batch, reason)


def _simplify_reason(reason: WaitingReason | None) -> WaitingReason | None:
    return WaitingReason(WaitingCode.BEHIND) if reason is not None and reason.code is WaitingCode.BEHIND else reason


def _is_noted(reason: WaitingReason, noted: WaitingReason | None) -> bool:
    """The end of the attempt has recorded more about a retry: the cause of the failure."""
    if noted is None or reason.code is not WaitingCode.RETRY or noted.code is not WaitingCode.RETRY:
        return False
    return reason.facts.items() <= noted.facts.items()


def _split_into_batches(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


SPEC, SUBMISSION = "jobspec.yaml", "submit.json"
logger = logging.getLogger(__name__)


def begin(context: SchedulerContext, task_id: str, tick: TickContext, passed: int = 0) -> Allocation | None:
    """Start a task.

    Args:
        passed: How many tasks wait that it goes ahead of, as it needs nothing of what they wait for.

    Returns:
        What it holds now; None: it did not start.

    Raises:
        RayUnreachable: The attempt is on record.
    """
    with context.database.write() as conn:
        task = store.get_task(conn, task_id)
        if task is None or not task.is_waiting:  # cancelled since the queue was read
            return None
        number = task.latest_attempt_no + 1
        attempt = Attempt(task_id, number, submission_id(task_id, number), tick.at, cluster=context.cluster)
        detail = {"ahead_of": passed} if passed else None
        admitted = store.apply(
            conn, task, Event.ADMIT, tick.at, detail=detail, latest_attempt_no=number, next_run_at=None
        )
        if admitted is None:  # cancelled since it was read
            return None
        store.add_attempt(conn, attempt)
    WAIT_SECONDS.observe(max(0.0, (tick.now - from_text(task.waited_since)).total_seconds()))
    return launch(context, admitted, attempt, tick)


def launch(context: SchedulerContext, task: Task, attempt: Attempt, tick: TickContext) -> Allocation | None:
    """Submits an attempt to Ray; again if its progress is unknown.

    Args:
        attempt: the newest attempt of the task.

    Returns:
        What it holds now; None: it has ended, and holds nothing.

    Raises:
        RayUnreachable: It is unknown whether Ray has it.
    """
    try:
        submission = _prepare(context, task, attempt)
        payload = _digest_payload(submission)
        if task.demand.resources and task.demand.claims_by_group:
            put_program(context.homes.options.root, data_folder(f"ops/samples/{PLACEMENT_FOLDER}"), f"{PLACEMENT}.py")
        context.homes.files.create(task.user)  # users of only the API may have no home yet
        context.homes.folders.begun(task.user, attempt.folder, now=tick.now)
        if task.folder is not None:
            context.homes.folders.begun(task.user, task.folder, now=tick.now)
            write_files(context.homes.files, task.user, task.folder, {})
        files = {SPEC: task.spec_text.encode(), SUBMISSION: payload.encode()}
        write_files(context.homes.files, task.user, attempt.folder, files)  # the program starts in this folder
        tick.watch()
        if not _is_unchanged(context, task):
            return Allocation(task, attempt)
        attempt = _record_payload(context, attempt, payload)
        context.gateway.submit(submission)
    except ModelmillError as error:
        if error.can_retry:  # Ray, the database or the homes are unreachable, which does not concern the task
            raise
        is_refused = isinstance(error, RayRefused)
        summary = f"Ray refused it: {error.message}" if is_refused else error.message
        return settle(context, task, attempt, Failure(FailureKind.USER_ERROR, summary), tick)
    return _accept(context, task, attempt, tick)


def _prepare(context: SchedulerContext, task: Task, attempt: Attempt) -> Submission:
    """Checks again: since the submission, files may have disappeared and links may have appeared."""
    spec, _ = read_spec(task.spec_text.encode())
    try:
        check_paths(context.homes.rules, task.user, spec)
        resume = None  # a later attempt continues from the task's own
        if not checkpoints_of_task(context.homes, task):
            resume = resume_path(context.database, context.homes, task.user, spec)
    except PathRefused:
        _require_storage(context)
        raise
    environment = context.environments.get(task.environment).spec if task.environment else NO_ENVIRONMENT
    return submission_of(
        spec,
        submission_id=attempt.submission_id,
        task_id=task.task_id,
        user=task.user,
        options=context.options,
        logical_root=context.homes.options.logical_root,
        resume_path=resume,
        environment=environment,
        secrets=context.secrets.resolve(environment.secrets),
    )


def _require_storage(context: SchedulerContext) -> None:
    """An unmounted home root has nobody's files, and would fail the whole queue, one task after the other."""
    with disk_errors(COMMON):
        is_there = (context.homes.options.root / COMMON).is_dir()
    if not is_there:
        raise HomeUnavailable("The data homes are not there now.", hint="See that their storage is mounted.")


def _record_payload(context: SchedulerContext, attempt: Attempt, payload: str) -> Attempt:
    """From here on Ray may have received it."""
    if attempt.submit_payload == payload:
        return attempt
    with context.database.write() as conn:
        return store.change_attempt(conn, attempt, submit_payload=payload)


def _is_unchanged(context: SchedulerContext, task: Task) -> bool:
    """Whether that is still current: its user may have cancelled it, and another leader may have continued."""
    with context.database.read() as conn:
        current = store.get_task(conn, task.task_id)
    return current is not None and current.version == task.version


def _accept(context: SchedulerContext, task: Task, attempt: Attempt, tick: TickContext) -> Allocation | None:
    with context.database.write() as conn:
        accepted = store.apply(conn, task, Event.ACCEPT, tick.at)
        current = accepted or store.get_task(conn, task.task_id)
    logger.info("Attempt %d was submitted to Ray as %s.", attempt.attempt_no, attempt.submission_id)
    if current is None or current.is_terminal:
        context.gateway.stop(attempt.submission_id)  # it ended while Ray was being called
        return None
    if current.state is State.CANCELING:
        context.gateway.stop(attempt.submission_id)
    return Allocation(current, attempt)


def _digest_payload(submission: Submission) -> str:
    fields: dict[str, Any] = asdict(submission) | {"secrets": dict.fromkeys(submission.secrets, BLOT.decode())}
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
