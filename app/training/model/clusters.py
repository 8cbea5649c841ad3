"""One queue before several clusters, each with the gang rule of its own. Pure.

A task is considered on each cluster on which it may start, in the order of the clusters, and starts on the first that
has room. One that waits keeps its place on all of them: nobody overtakes it there. Where it could never fit, it holds
up nobody, if it could elsewhere. Limits of users, environments and the installation hold for all clusters together.

A cluster that does not answer takes no part: its tasks wait, and all others go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from app.training.model.capacity import Capacity, Node
from app.training.model.demand import Demand, Held, Need
from app.training.model.gang import AdmissionRules, Decision, Queued, decide

ANY = "any"
"""A task may start on any cluster that has room."""


def may_share(cluster: str, other: str) -> bool:
    """Whether tasks of these two choices may compete for the same room."""
    return cluster == other or ANY in (cluster, other)


@dataclass(frozen=True)
class ClusterState:
    """A cluster that answers."""

    held: Sequence[Held]
    nodes: Sequence[Node]
    rules: AdmissionRules
    """What users and environments hold in it is that of all clusters."""


def decide_on_clusters(
    waiting: Sequence[tuple[Queued, Collection[str]]],
    clusters: Mapping[str, ClusterState],
    *,
    now: str,
    active: int,
    may_start: int | None,
) -> dict[str, Decision]:
    """Chooses the tasks that start now, and where.

    Args:
        waiting: In the order of the queue, each with the names of the clusters on which it may start.
        clusters: By name, in the order in which they are tried.
        now: ISO 8601 in UTC.
        active: How many are active on all clusters, also those that take no part.
        may_start: How many more may be active at once, on all clusters; None: any number.

    Returns:
        A decision for each cluster. A task that started on one has a reason on no other.
    """
    chosen = _match_clusters(waiting, clusters)
    started: set[str] = set()
    gpus_of_users: Counter[str] = Counter()
    gpus_of_environments: Counter[str] = Counter()
    decisions = {}
    for name, state in clusters.items():
        entries = [queued for queued, names in chosen if name in names and queued.task_id not in started]
        rules = replace(
            state.rules,
            held_gpus=gpus_of_users + Counter(state.rules.held_gpus),
            held_by_environment=gpus_of_environments + Counter(state.rules.held_by_environment),
        )
        left = None if may_start is None else may_start - len(started)
        elsewhere = active - len(state.held) + len(started)
        decision = decide(entries, state.held, state.nodes, now=now, may_start=left, rules=rules, elsewhere=elsewhere)
        admitted = set(decision.admitted)
        for queued in entries:
            if queued.task_id in admitted:
                gpus_of_users[queued.user] += queued.demand.gpus
                gpus_of_environments[queued.environment] += queued.demand.gpus
        started |= admitted
        decisions[name] = decision
    return {name: _remove_started(decision, started) for name, decision in decisions.items()}


def _match_clusters(
    waiting: Sequence[tuple[Queued, Collection[str]]], clusters: Mapping[str, ClusterState]
) -> list[tuple[Queued, Collection[str]]]:
    """Of several clusters only those that could ever hold it, if there are any."""
    if len(clusters) == 1:
        return list(waiting)
    empty = {name: Capacity(state.nodes) for name, state in clusters.items()}
    fits: dict[tuple[str, Demand], bool] = {}
    chosen = []
    for queued, names in waiting:
        if len(names) > 1:
            for name in names:
                if name in empty and (name, queued.demand) not in fits:
                    fits[name, queued.demand] = empty[name].place(Need.of(queued.demand)) is not None
        able = [name for name in names if fits.get((name, queued.demand))]
        chosen.append((queued, able or names))
    return chosen


def _remove_started(decision: Decision, started: Collection[str]) -> Decision:
    """Of tasks that waited here, and have started elsewhere."""
    gone = [task_id for task_id in decision.reasons if task_id in started]
    if not gone:
        return decision
    reasons = {task_id: reason for task_id, reason in decision.reasons.items() if task_id not in started}
    was_for_one_of_them = any("giving_way" in decision.reasons[task_id].facts for task_id in gone)
    return replace(decision, reasons=reasons, giving_way=() if was_for_one_of_them else decision.giving_way)
