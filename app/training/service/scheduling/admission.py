"""Steps admit and submit. Which tasks are admitted is decided by `model.gang`; of the others it is noted why they wait.

An admitted task gets an attempt, a folder, and is given to Ray. The attempt is on record before Ray hears of it, and
its name follows from the task: whoever dies in between is followed by one who submits the same name again, or finds
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
from app.training import store
from app.training.errors import RayRefused
from app.training.gateway import Submission
from app.training.metrics.counters import WAIT_SECONDS
from app.training.model import Attempt, Event, FailureKind, State, Task, Waiting, WaitingCode, submission_id
from app.training.model.failures import Failure
from app.training.model.gang import Queued
from app.training.service.scheduling.attempt_files import write_papers
from app.training.service.scheduling.completion import settle
from app.training.service.scheduling.context import Allocation, SchedulerContext, TickContext
from app.training.service.submission import check_paths
from app.training.spec import read_spec
from app.training.store import Place
from app.training.workloads import submission_of

T = TypeVar("T")
BATCH = 200
"""Tasks in a transaction: nobody else who writes waits long for it."""
FRESH_AT_ONCE = 500
"""So many newcomers are told in a tick why they wait: when thousands come at once, the others are not kept waiting."""


def read_line(desk: SchedulerContext) -> list[Place]:
    with desk.database.read() as conn:
        return store.queue(conn)


def as_queued(place: Place) -> Queued:
    return Queued(place.task_id, place.demand, place.backfill, place.next_run_at)


def write_reasons(
    desk: SchedulerContext, line: Sequence[Place], reasons: Mapping[str, Waiting], moment: TickContext
) -> None:
    """A place in the line changes with every task that leaves it: it is counted when somebody asks, and not written."""
    fresh = []
    changed: dict[WaitingCode, list[tuple[str, Waiting]]] = defaultdict(list)
    for place in line:
        reason = _lasting(reasons.get(place.task_id))
        if reason is None:
            continue
        if place.state is State.QUEUED:
            fresh.append((place.task_id, reason))
        elif reason != place.waiting and not _is_told(reason, place.waiting):
            changed[reason.code].append((place.task_id, reason))
    _begin_to_wait(desk, fresh[:FRESH_AT_ONCE], moment)
    for found in changed.values():
        _note(desk, found, moment)


def write_reason_for_all(desk: SchedulerContext, line: Sequence[Place], reason: Waiting, moment: TickContext) -> None:
    """Nobody has looked whether there is room: states stay."""
    _note(desk, [(place.task_id, reason) for place in line if place.waiting != reason], moment)


def _begin_to_wait(desk: SchedulerContext, fresh: Iterable[tuple[str, Waiting]], moment: TickContext) -> None:
    for batch in _batches(fresh):
        moment.watch()
        with desk.database.write() as conn:
            for task_id, reason in batch:
                task = store.get_task(conn, task_id)
                if task is not None and task.state is State.QUEUED:
                    store.apply(conn, task, Event.WAIT, moment.text, waiting=reason)


def _note(desk: SchedulerContext, found: Iterable[tuple[str, Waiting]], moment: TickContext) -> None:
    """Alike ones together."""
    alike: list[tuple[Waiting, list[str]]] = []
    for task_id, reason in found:
        if alike and alike[-1][0] == reason:
            alike[-1][1].append(task_id)
        else:
            alike.append((reason, [task_id]))
    for reason, task_ids in alike:
        for batch in _batches(task_ids):
            moment.watch()
            with desk.database.write() as conn:
                store.note_waiting(conn, batch, reason)


def _lasting(reason: Waiting | None) -> Waiting | None:
    return Waiting(WaitingCode.BEHIND) if reason is not None and reason.code is WaitingCode.BEHIND else reason


def _is_told(reason: Waiting, told: Waiting | None) -> bool:
    """The end of the attempt has said more of a retry: what it failed of."""
    if told is None or reason.code is not WaitingCode.RETRY or told.code is not WaitingCode.RETRY:
        return False
    return reason.facts.items() <= told.facts.items()


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch


SPEC, SUBMISSION = "jobspec.yaml", "submit.json"
logger = logging.getLogger(__name__)


def begin(desk: SchedulerContext, task_id: str, moment: TickContext) -> Allocation | None:
    """None: it did not start. Raises RayUnreachable, with the attempt on record."""
    with desk.database.write() as conn:
        task = store.get_task(conn, task_id)
        if task is None or not task.is_waiting:  # cancelled since the line was read
            return None
        number = task.latest_attempt_no + 1
        attempt = Attempt(task_id, number, submission_id(task_id, number), moment.text)
        admitted = store.apply(conn, task, Event.ADMIT, moment.text, latest_attempt_no=number, next_run_at=None)
        if admitted is None:  # cancelled since it was read
            return None
        store.add_attempt(conn, attempt)
    WAIT_SECONDS.observe(max(0.0, (moment.now - from_text(task.waited_since)).total_seconds()))
    return launch(desk, admitted, attempt, moment)


def launch(desk: SchedulerContext, task: Task, attempt: Attempt, moment: TickContext) -> Allocation | None:
    """Again for one of which it is not known how far it came. Raises RayUnreachable."""
    try:
        submission = _prepared(desk, task, attempt)
        payload = _payload(submission)
        desk.homes.files.create(task.user)  # whoever came by the API alone may have none yet
        desk.homes.folders.begun(task.user, attempt.folder, now=moment.now)
        if task.folder is not None:
            desk.homes.folders.begun(task.user, task.folder, now=moment.now)
            write_papers(desk.homes.files, task.user, task.folder, {})
        papers = {SPEC: task.spec_text.encode(), SUBMISSION: payload.encode()}
        write_papers(desk.homes.files, task.user, attempt.folder, papers)  # the program starts in this folder
        moment.watch()
        if not _is_wanted(desk, task):
            return Allocation(task, attempt)
        attempt = _noted(desk, attempt, payload)
        desk.gateway.submit(submission)
    except ModelmillError as error:
        if error.can_retry:  # Ray, the database or the homes are away, which says nothing of the task
            raise
        is_rays = isinstance(error, RayRefused)
        summary = f"Ray refused it: {error.message}" if is_rays else error.message
        return settle(desk, task, attempt, Failure(FailureKind.USER_ERROR, summary), moment)
    return _accepted(desk, task, attempt, moment)


def _prepared(desk: SchedulerContext, task: Task, attempt: Attempt) -> Submission:
    """Checked once more: since it was sent, files may have gone and links may have come."""
    spec, _ = read_spec(task.spec_text.encode())
    try:
        check_paths(desk.homes.rules, task.user, spec)
    except PathRefused:
        _require_storage(desk)
        raise
    return submission_of(
        spec,
        submission_id=attempt.submission_id,
        task_id=task.task_id,
        user=task.user,
        options=desk.options,
        logical_root=desk.homes.options.logical_root,
    )


def _require_storage(desk: SchedulerContext) -> None:
    """One that is not mounted has nobody's files, and would fail the whole line, one task after the other."""
    with disk_errors(COMMON):
        is_there = (desk.homes.options.root / COMMON).is_dir()
    if not is_there:
        raise HomeUnavailable("The data homes are not there now.", hint="See that their storage is mounted.")


def _noted(desk: SchedulerContext, attempt: Attempt, payload: str) -> Attempt:
    """From here on Ray may have heard of it."""
    if attempt.submit_payload == payload:
        return attempt
    with desk.database.write() as conn:
        return store.change_attempt(conn, attempt, submit_payload=payload)


def _is_wanted(desk: SchedulerContext, task: Task) -> bool:
    """Still? Its user may have cancelled it, and another leader may have gone on with it."""
    with desk.database.read() as conn:
        known = store.get_task(conn, task.task_id)
    return known is not None and known.version == task.version


def _accepted(desk: SchedulerContext, task: Task, attempt: Attempt, moment: TickContext) -> Allocation | None:
    with desk.database.write() as conn:
        accepted = store.apply(conn, task, Event.ACCEPT, moment.text)
        known = accepted or store.get_task(conn, task.task_id)
    logger.info("Attempt %d was submitted to Ray as %s.", attempt.attempt_no, attempt.submission_id)
    if known is None or known.is_terminal:
        desk.gateway.stop(attempt.submission_id)  # it ended while Ray was being told
        return None
    if known.state is State.CANCELING:
        desk.gateway.stop(attempt.submission_id)
    return Allocation(known, attempt)


def _payload(submission: Submission) -> str:
    fields: dict[str, Any] = asdict(submission)
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
