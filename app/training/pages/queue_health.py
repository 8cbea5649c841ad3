"""Is the queue being worked on? What pages say above their content when it is not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from redis import RedisError

from app.training.service import ClusterView, Training


class Trouble(StrEnum):
    RAY = "RAY"
    """Ray does not answer the scheduler."""
    SCHEDULER = "SCHEDULER"
    """No scheduler has looked for some time."""
    REDIS = "REDIS"
    """It cannot be told: the picture lies there."""


@dataclass(frozen=True)
class QueueHealth:
    """Whether tasks can start."""

    view: ClusterView | None
    """The cluster as last seen, None if that is not known."""
    trouble: Trouble | None


def condition_of(training: Training) -> QueueHealth:
    try:
        view = training.picture.get()
    except RedisError:
        return QueueHealth(None, Trouble.REDIS)
    if view is None:
        return QueueHealth(None, Trouble.SCHEDULER)
    return QueueHealth(view, Trouble.RAY if view.unreachable_since else None)
