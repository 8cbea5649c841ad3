"""How the cluster is, as the scheduler last saw it: it leaves a picture in Redis, and whoever shows it reads that.

So the web needs no Ray, and many who look do not ask the cluster more often than one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from redis import Redis

from app.kit.redis.records import NUDGES
from app.training.model import Node
from app.training.store.changes import CLUSTER

KEY = "training:cluster"


@dataclass(frozen=True)
class Holder:
    """An active task on the cluster. by_node: node_id → GPUs, as far as Ray has given them; the rest is reserved."""

    task_id: str
    user: str
    workload: str
    state: str
    gpus: int
    by_node: dict[str, float]


@dataclass(frozen=True)
class ClusterView:
    """seen_at: when (ISO 8601). unreachable_since: Ray does not answer, and nodes are as last seen; problem: why, as
    far as is known. queued: tasks in line, of everybody."""

    seen_at: str
    nodes: tuple[Node, ...] = ()
    holders: tuple[Holder, ...] = ()
    queued: int = 0
    unreachable_since: str | None = None
    problem: str = ""


class ClusterPicture:
    """put by the scheduler, read by the web. Raises redis.RedisError. ttl_s: of a picture that nobody renews."""

    def __init__(self, redis: Redis, *, ttl_s: int = 60) -> None:
        self.redis = redis
        self.ttl_s = ttl_s
        self._last: ClusterView | None = None

    def put(self, view: ClusterView) -> None:
        """While Ray does not answer a view without nodes keeps those of the picture before."""
        if view.unreachable_since is not None and not view.nodes:
            before = self.get()
            view = replace(view, nodes=before.nodes) if before else view
        last, self._last = self._last, replace(view, seen_at="")
        with self.redis.pipeline(transaction=True) as pipe:
            pipe.set(KEY, json.dumps(asdict(view)), ex=self.ttl_s)
            if self._last != last:
                pipe.publish(f"{NUDGES}{CLUSTER}", "")
            pipe.execute()

    def get(self) -> ClusterView | None:
        """None: no scheduler has looked for some time, or one of another version has."""
        text: Any = self.redis.get(KEY)
        if text is None:
            return None
        try:
            return _view(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def _view(known: dict[str, Any]) -> ClusterView:
    nodes = tuple(Node(**node) for node in known["nodes"])
    holders = tuple(Holder(**holder) for holder in known["holders"])
    return ClusterView(**{**known, "nodes": nodes, "holders": holders})
