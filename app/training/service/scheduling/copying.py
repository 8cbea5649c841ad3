"""The log of a running attempt: what it has written since the last tick joins the copy in its folder."""

from __future__ import annotations

from app.training import store
from app.training.service.scheduling.completion import TAIL_LINES
from app.training.service.scheduling.context import Allocation, SchedulerContext


def copy_log(desk: SchedulerContext, holding: Allocation) -> None:
    """Raises RayUnreachable, errors of homes."""
    attempt, job = holding.attempt, holding.job
    if job is None or job.status.is_terminal or not job.driver_node_id:
        return
    tail = desk.gateway.log_tail(job, TAIL_LINES)
    if not tail:
        return
    is_whole = tail.count(b"\n") < TAIL_LINES
    log_bytes = desk.copies.grow(holding.task.user, attempt.folder, tail, is_whole=is_whole)
    if log_bytes != attempt.log_bytes:
        with desk.database.write() as conn:
            store.change_attempt(conn, attempt, log_bytes=log_bytes)
