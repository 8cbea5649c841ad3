"""Metrics of training at the time of a scrape: the tasks from SQL, the cluster as last seen by the scheduler.

One query and one key of Redis, however many tasks have ended; the scheduler's counters are exported with the sums of
all processes (see app.kit.observability.metrics).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import redis
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.kit import clock
from app.kit.clock import from_text
from app.kit.sql import Database
from app.kit.sql.timeboxed_query import TimeboxedQuery
from app.training.model import ACTIVE, WAITING, State
from app.training.service import ClusterPicture, ClusterView
from app.training.store import StateCount, count_by_state

UNENDED = tuple(state for state in State if state in WAITING | ACTIVE)


class TrainingCollector(Collector):
    """
    Args:
        picture: with a client with short timeouts.
        shown: the name of a cluster; None: there is only one.
        now: for tests.
    """

    def __init__(
        self,
        database: Database,
        picture: ClusterPicture,
        *,
        shown: Callable[[str], str] | None = None,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        self._state_counts = TimeboxedQuery(database, count_by_state)
        self._picture = picture
        self._shown = shown
        self._now = now

    def collect(self) -> Iterable[Metric]:
        """Without the database, no metrics of the tasks; without Redis, none of the cluster."""
        counts_of_states = self._state_counts.take()
        if counts_of_states is not None:
            yield from task_families(counts_of_states, self._now())
        try:
            views = self._picture.all()
        except redis.RedisError:
            return
        yield GaugeMetricFamily(
            "modelmill_training_scheduler_up",
            "1 when a scheduler has looked at the cluster within the last minute.",
            value=views[""] is not None,
        )
        yield from cluster_families({name: view for name, view in views.items() if view}, self._now(), self._shown)


def task_families(counts_of_states: Sequence[StateCount], now: datetime) -> Iterable[Metric]:
    counts = {state_count.state: state_count.tasks for state_count in counts_of_states}
    waiting_since = min(
        (state_count.waited_since for state_count in counts_of_states if state_count.state in WAITING), default=None
    )
    tasks = GaugeMetricFamily(
        "modelmill_training_tasks", "Training tasks that have not ended, by state.", labels=["state"]
    )
    for state in UNENDED:
        tasks.add_metric([state.value], counts.get(state, 0))
    yield tasks
    yield GaugeMetricFamily(
        "modelmill_training_oldest_waiting_age_seconds",
        "How long the longest waiting task is in line; 0 without one.",
        value=_measure_age_s(waiting_since, now) if waiting_since else 0.0,
    )


def cluster_families(
    views: Mapping[str, ClusterView], now: datetime, shown: Callable[[str], str] | None
) -> Iterable[Metric]:
    """Of several clusters, each with its name as a label."""
    labels = ["cluster"] if shown else []
    families = [
        GaugeMetricFamily(f"modelmill_training_{name}", text, labels=[*labels, *more])
        for name, text, more in (
            ("look_age_seconds", "Time since the scheduler last looked at the cluster.", []),
            ("ray_up", "1 when Ray answered the scheduler's last look.", []),
            ("ray_version_matches", "0 when the cluster runs another Ray version than the scheduler.", []),
            ("nodes", "Living nodes that may train, as last seen.", []),
            ("gpus", "GPUs of nodes that may train, by what they are up to.", ["state"]),
        )
    ]
    age, is_up, matches, nodes, states = families
    for name, view in views.items():
        own = [shown(name)] if shown else []
        age.add_metric(own, _measure_age_s(view.seen_at, now))
        is_up.add_metric(own, view.unreachable_since is None)
        matches.add_metric(own, bool(view.unreachable_since) or not view.problem)
        nodes.add_metric(own, sum(node.may_train for node in view.nodes))
        for state, count in gpus(view).items():
            states.add_metric([*own, state], count)
    return families if views else []


def gpus(view: ClusterView) -> dict[str, float]:
    """Counts each GPU of training nodes once. Ray reports as free what it has promised to a task and not allocated
    yet."""
    total = held = free = 0.0
    for node in view.nodes:
        if not node.may_train:
            continue
        of_tasks = sum(holder.by_node.get(node.node_id, 0.0) for holder in view.holders)
        total += node.total_gpus
        held += of_tasks
        free += max(min(node.free_gpus, node.total_gpus - of_tasks), 0.0)  # an ending task holds what Ray has freed
    owed = sum(max(holder.gpus - sum(holder.by_node.values()), 0.0) for holder in view.holders)
    promised = min(owed, free)
    return {"held": held, "promised": promised, "outside": max(total - held - free, 0.0), "free": free - promised}


def _measure_age_s(since: str, now: datetime) -> float:
    return max(0.0, (now - from_text(since)).total_seconds())
