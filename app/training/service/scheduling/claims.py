"""What active tasks have of the cluster by now, and who waits inside Ray for what it cannot give.

A program that asks for placement groups is RUNNING to Ray while they are PENDING, if need be for ever.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from app.kit.clock import from_text
from app.training import store
from app.training.gateway import PlacementGroup
from app.training.model import Claim, FailureKind
from app.training.service.scheduling.context import Allocation, SchedulerContext, TickContext

MAX_WAIT_S = 900
"""Of a task that says nothing else. Ray gives up a driver that finds no place after as long."""
logger = logging.getLogger(__name__)


def with_claim(holding: Allocation, groups: Sequence[PlacementGroup]) -> Allocation:
    """groups: of all jobs."""
    if not holding.is_running:
        return holding
    demand, attempt = holding.task.demand, holding.attempt
    if not demand.claims_by_group:
        node = attempt.driver_node_id
        claim = Claim({node: float(demand.gpus)}, {node: demand.cpus}) if node else Claim()
        return replace(holding, claim=claim)
    gpus: Counter[str] = Counter()
    cpus: Counter[str] = Counter()
    for node_id, some_gpus, some_cpus in (bundle for group in _of(holding, groups) for bundle in group.bundles):
        if node_id:
            gpus[node_id] += some_gpus  # type: ignore[assignment]  # counts may be fractions
            cpus[node_id] += some_cpus  # type: ignore[assignment]
    return replace(holding, claim=Claim(dict(gpus), dict(cpus)))


def judge_wait(
    desk: SchedulerContext, holding: Allocation, groups: Sequence[PlacementGroup], moment: TickContext
) -> Allocation:
    """Notes since when it waits for a placement group, and ends it when that was too long. Raises RayUnreachable."""
    task, attempt = holding.task, holding.attempt
    if not holding.is_running or attempt.failure_kind is not None:
        return holding
    is_waiting = any(not group.is_placed for group in _of(holding, groups))
    since = attempt.placement_pending_since
    if is_waiting != (since is not None):
        with desk.database.write() as conn:
            changed = store.change_attempt(conn, attempt, placement_pending_since=moment.text if is_waiting else None)
        return replace(holding, attempt=changed)
    most_s = task.max_wait_s or MAX_WAIT_S
    if since is None or moment.now - from_text(since) < timedelta(seconds=most_s):
        return holding
    why = f"The cluster had no room for its placement group for {most_s} seconds, so it was stopped."
    with desk.database.write() as conn:
        changed = store.change_attempt(conn, attempt, failure_kind=FailureKind.INSUFFICIENT_RESOURCES, message=why)
    logger.info("Attempt %d is stopped: it waits for a placement group since %s.", attempt.attempt_no, since)
    desk.gateway.stop(attempt.submission_id)
    return replace(holding, attempt=changed)


def _of(holding: Allocation, groups: Sequence[PlacementGroup]) -> list[PlacementGroup]:
    job_id = holding.attempt.ray_job_id
    return [group for group in groups if job_id and group.ray_job_id == job_id]
