"""The order in which tasks are considered: first come, first served; by priority; or by fair shares. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeVar

from app.training.model.demand import Demand
from app.training.model.task import Priority

HALF_LIFE_S = 7 * 86400
"""Half-life of the use of GPUs."""
CHARGED_S = 3600
"""Charge for a task while it is ordered: GPU-seconds of one hour of its demand."""


class QueuePolicy(StrEnum):
    """In which order waiting tasks are started."""

    FIFO = "fifo"
    """First come, first served: nobody is overtaken."""
    PRIORITY = "priority"
    """High before normal before low, and first come, first served among equals."""
    FAIR = "fair"
    """By priority; among equals, the user with the least recent use of GPUs, by their weights, comes first."""


class Orderable(Protocol):
    @property
    def user(self) -> str: ...
    @property
    def demand(self) -> Demand: ...
    @property
    def priority(self) -> Priority: ...


T = TypeVar("T", bound=Orderable)


@dataclass(frozen=True)
class Shares:
    """The past use and the share of each user."""

    used_gpu_s: Mapping[str, float] = field(default_factory=dict)
    """By user, decayed: see decayed_use."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """By user; 1 for users that are absent."""

    def level(self, user: str, charged_gpu_s: float = 0.0) -> float:
        """The lower, the more they are owed."""
        return (self.used_gpu_s.get(user, 0.0) + charged_gpu_s) / self.weights.get(user, 1.0)


@dataclass(frozen=True)
class Use:
    """GPUs that were held."""

    user: str
    gpus: int
    start: datetime
    end: datetime


def compute_decayed_use(uses: Sequence[Use], now: datetime) -> dict[str, float]:
    """GPU-seconds by user, each use counted half for every half-life since its end."""
    sums: dict[str, float] = defaultdict(float)
    for use in uses:
        age_s = max(0.0, (now - use.end).total_seconds())
        sums[use.user] += use.gpus * max(0.0, (use.end - use.start).total_seconds()) * 0.5 ** (age_s / HALF_LIFE_S)
    return dict(sums)


def in_order(waiting: Sequence[T], policy: QueuePolicy, shares: Shares | None = None) -> list[T]:
    """waiting: in the order of submission."""
    if policy is QueuePolicy.FIFO:
        return list(waiting)
    by_rank = sorted(waiting, key=lambda entry: entry.priority.rank)
    if policy is QueuePolicy.PRIORITY:
        return by_rank
    ordered: list[T] = []
    charged: dict[str, float] = defaultdict(float)
    for priority in Priority:
        ordered += _order_fairly(
            [entry for entry in by_rank if entry.priority is priority], shares or Shares(), charged
        )
    return ordered


def _order_fairly(entries: Sequence[T], shares: Shares, charged: dict[str, float]) -> list[T]:
    """Within one priority: repeatedly the first task of the user who is owed the most."""
    queues: dict[str, deque[T]] = {}
    for entry in entries:
        queues.setdefault(entry.user, deque()).append(entry)
    places = {user: place for place, user in enumerate(queues)}
    ordered: list[T] = []
    while queues:
        user = min(queues, key=lambda name: (shares.level(name, charged[name]), places[name]))
        entry = queues[user].popleft()
        charged[user] += max(1, entry.demand.gpus) * CHARGED_S
        ordered.append(entry)
        if not queues[user]:
            del queues[user]
    return ordered
