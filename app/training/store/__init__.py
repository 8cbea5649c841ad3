"""Remembers tasks, attempts, events and conversions in SQL. All runs in the caller's transactions.

`apply` is the one writer of a task's state: it looks up the transition, writes if the task is still as it was read,
and adds the event, all in one step. Knows no rules beyond the transition table.
"""

from app.training.store.attempts import add_attempt, attempts_of, change_attempt, latest_attempts
from app.training.store.conversions import (
    claim_conversion,
    conversion_of_job,
    conversions_due,
    conversions_of,
    put_conversion,
    unconverted,
)
from app.training.store.events import add_event, events_of
from app.training.store.queue import (
    Filter,
    Place,
    StateCount,
    active,
    census,
    count_unended,
    counts_ahead,
    note_waiting,
    page,
    queue,
    released,
    unended_of,
)
from app.training.store.tasks import (
    NewTask,
    TaskIdTaken,
    add_task,
    apply,
    by_idempotency_key,
    change,
    get_task,
    lock_line_of,
)

__all__ = [
    "Filter",
    "NewTask",
    "Place",
    "StateCount",
    "TaskIdTaken",
    "active",
    "add_attempt",
    "add_event",
    "add_task",
    "apply",
    "attempts_of",
    "by_idempotency_key",
    "census",
    "change",
    "change_attempt",
    "claim_conversion",
    "conversion_of_job",
    "conversions_due",
    "conversions_of",
    "count_unended",
    "counts_ahead",
    "events_of",
    "get_task",
    "latest_attempts",
    "lock_line_of",
    "note_waiting",
    "page",
    "put_conversion",
    "queue",
    "released",
    "unconverted",
    "unended_of",
]
