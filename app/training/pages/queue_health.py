"""Is the queue being worked on? What pages say above their content when it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from redis import RedisError

from app.training.service import ClusterView, Training


class Trouble(StrEnum):
    RAY = "RAY"
    """Ray does not answer the scheduler."""
    VERSION = "VERSION"
    """It answers, and is not of the version of the scheduler."""
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
    silent: Sequence[tuple[str, ClusterView]] = ()
    """The clusters with this trouble; without a name if there is only one."""


def condition_of(training: Training) -> QueueHealth:
    try:
        views = training.picture.all()
    except RedisError:
        return QueueHealth(None, Trouble.REDIS)
    default = views[""]
    if default is None:
        return QueueHealth(None, Trouble.SCHEDULER)
    names = {name: training.options.shown(name) if len(views) > 1 else "" for name in views}
    silent = [(names[name], view) for name, view in views.items() if view and view.unreachable_since]
    if silent:
        return QueueHealth(default, Trouble.RAY, silent)
    other = [(names[name], view) for name, view in views.items() if view and view.problem]
    return QueueHealth(default, Trouble.VERSION if other else None, other)
