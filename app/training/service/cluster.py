"""The cluster as last seen by the scheduler, which writes a snapshot to Redis for the web server.

So the web server needs no Ray, and many viewers cost the cluster no more queries than one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from redis import Redis, RedisError

from app.kit.redis.records import CHANGES
from app.training.model import Node
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
    """Why it does not answer, if known."""
    order: tuple[str, ...] = ()
    """Ids of the first tasks in the queue, if that is not the order of submission."""


_VIEW = TypeAdapter(ClusterView)


class ClusterPicture:
    """Written by the scheduler, read by the web server. Raises redis.RedisError.

    Args:
        ttl_s: Seconds until a snapshot expires.
    """

    def __init__(self, redis: Redis, *, ttl_s: int = 60) -> None:
        self.redis = redis
        self.ttl_s = ttl_s
        self._last: ClusterView | None = None

    def put(self, view: ClusterView) -> None:
        """While Ray does not answer, a view without nodes keeps those of the previous snapshot."""
        if view.unreachable_since is not None and not view.nodes:
            before = self.get()
            view = replace(view, nodes=before.nodes) if before else view
        last, self._last = self._last, replace(view, seen_at="")
        with self.redis.pipeline(transaction=True) as pipe:
            pipe.set(KEY, json.dumps(asdict(view)), ex=self.ttl_s)
            if self._last != last:
                pipe.publish(f"{CHANGES}{CLUSTER}", "")
            pipe.execute()

    def order(self) -> tuple[str, ...]:
        """Of the queue, if known to differ from the order of submission. Never raises."""
        try:
            view = self.get()
        except RedisError:
            return ()
        return view.order if view else ()

    def nodes(self) -> tuple[Node, ...]:
        """As far as they are known. Never raises."""
        try:
            view = self.get()
        except RedisError:
            return ()
        return view.nodes if view else ()

    def get(self) -> ClusterView | None:
        """None: no scheduler has written one for some time, or only one of another version."""
        text: Any = self.redis.get(KEY)
        if text is None:
            return None
        try:
            return _VIEW.validate_json(text)
        except ValidationError:
            return None
