"""Step admit, but for the decision itself: the line as it is, and why each waits, written where that has changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from app.training import store
from app.training.model import Event, State, Waiting, WaitingCode
from app.training.model.gang import Queued
from app.training.service.scheduling.context import SchedulerContext, TickContext
from app.training.store import Place

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
