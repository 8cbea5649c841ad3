"""Remembers tasks, attempts, events and conversions in SQL. All runs in the caller's transactions.

`apply` is the one writer of a task's state: it looks up the transition, writes if the task is still as it was read,
and adds the event, all in one step. Knows no rules beyond the transition table.
"""

from app.training.store.environments import (
    EnvironmentRow,
    count_unended_in,
    delete_environment,
    environment_of,
    environments_by_name,
    put_environment,
)
from app.training.store.queue import (
    QueueEntry,
    StateCount,
    TaskFilter,
    active,
    count_by_state,
    count_unended,
    counts_ahead,
    list_released,
    note_waiting,
    page,
    queue,
    unended_of,
    uses_since,
)
from app.training.store.sweeps import (
    StoredSweep,
    add_sweep,
    change_sweep,
    end_sweeps_of,
    open_sweeps,
    sweep_events,
    sweep_of,
    sweeps_of,
    tasks_by_sweep,
)
from app.training.store.tasks import (
    TaskIdTaken,
    add_attempt,
    add_event,
    add_task,
    apply,
    attempts_of,
    by_idempotency_key,
    change,
    change_attempt,
    claim_conversion,
    conversions_due,
    conversions_of,
    events_of,
    get_task,
    latest_attempts,
    list_unconverted,
    lock_queue_of,
    put_conversion,
)
