"""The cluster as last seen by the scheduler, which writes a snapshot to Redis for the web server.

So the web server needs no Ray, and many viewers cost the cluster no more queries than one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from redis import Redis, RedisError

from app.kit.redis.records import CHANGES
from app.training.model import Node
from app.training.model.clusters import ANY
from app.training.model.node_use import NodeUse
from app.training.store.changes import CLUSTER

KEY = "training:cluster"


@dataclass(frozen=True)
class Holder:
    """An active task on the cluster."""

    task_id: str
    user: str
    workload: str
    state: str
    gpus: int
    """Its whole demand."""
    by_node: dict[str, float]
    """GPUs by node id that Ray has allocated; the rest is reserved."""
    cpus: float = 0
    """Its whole demand."""


@dataclass(frozen=True)
class FirstInLine:
    """The first task that waits for room: what is free is kept for it."""

    task_id: str
    user: str
    gpus: int
    starts_by: str | None = None
    """When it starts at the latest, if time limits tell."""
    after_user: str | None = None
    """Whose task must end for it."""
    after_task: str | None = None
    """Which task, if it is of the same user."""
    cpus: float = 0


@dataclass(frozen=True)
class ClusterView:
    """The cluster at one moment."""

    seen_at: str
    """ISO 8601 in UTC."""
    nodes: tuple[Node, ...] = ()
    holders: tuple[Holder, ...] = ()
    queued: int = 0
    """Tasks in the queue, of all users."""
    unreachable_since: str | None = None
    """Ray has not answered since then, and nodes are as last seen."""
    problem: str = ""
    """Why it does not answer, if known; or what is wrong although it does."""
    order: tuple[str, ...] = ()
    """Ids of the first tasks in the queue, if that is not the order of submission."""
    first: FirstInLine | None = None
    use: dict[str, NodeUse] = field(default_factory=dict)
    """By node id, of nodes that Ray's reporter tells about."""


_VIEW = TypeAdapter(ClusterView)


def _build_key(name: str) -> str:
    return f"{KEY}:{name}" if name else KEY


class ClusterPicture:
    """Written by the scheduler, read by the web server. Raises redis.RedisError.

    A cluster is named as in records: "" is the default one.

    Args:
        ttl_s: Seconds until a snapshot expires.
        names: Of the clusters.
    """

    def __init__(self, redis: Redis, *, ttl_s: int = 60, names: Sequence[str] = ("",)) -> None:
        self.redis = redis
        self.ttl_s = ttl_s
        self.names = names
        self._last: dict[str, ClusterView] = {}

    def put(self, view: ClusterView, name: str = "") -> None:
        """While Ray does not answer, a view without nodes keeps those of the previous snapshot."""
        if view.unreachable_since is not None and not view.nodes:
            before = self.get(name)
            view = replace(view, nodes=before.nodes) if before else view
        last, current = self._last.get(name), replace(view, seen_at="")
        self._last[name] = current
        with self.redis.pipeline(transaction=True) as pipe:
            pipe.set(_build_key(name), json.dumps(asdict(view)), ex=self.ttl_s)
            if current != last:
                pipe.publish(f"{CHANGES}{CLUSTER}", "")
            pipe.execute()

    def order(self, name: str = "") -> tuple[str, ...]:
        """Of the tasks that wait for a cluster, if known to differ from the order of submission. Never raises.

        Args:
            name: ANY: of those that may start on the default one.
        """
        try:
            view = self.get("" if name == ANY else name)
        except RedisError:
            return ()
        return view.order if view else ()

    def nodes(self, name: str = ANY) -> tuple[Node, ...]:
        """As far as they are known. Never raises.

        Args:
            name: ANY: those of all clusters; none if one of these is not known.
        """
        try:
            views = [self.get(each) for each in (self.names if name == ANY else [name])]
        except RedisError:
            return ()
        return tuple(node for view in views if view for node in view.nodes) if all(views) else ()

    def all(self) -> dict[str, ClusterView | None]:
        """By name, as of `get`."""
        return {name: self.get(name) for name in self.names}

    def get(self, name: str = "") -> ClusterView | None:
        """None: no scheduler has written one for some time, or only one of another version."""
        text: Any = self.redis.get(_build_key(name))
        if text is None:
            return None
        try:
            return _VIEW.validate_json(text)
        except ValidationError:
            return None
