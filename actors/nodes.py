"""Actors that monitor nodes: a node that falls silent sends no message, so its state has to be polled; likewise
services that wait for something that may have appeared. Of two concurrent ones, one leads."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from periodiq import cron

from actors.process import actor, container
from app.kit.queue.messages import Message, post

if TYPE_CHECKING:
    from app.kit.redis.leader import Leader, Watch

LEASE, LEASE_S = "nodes:leader", 10.0
LOOK_S = 5.0
"""No longer than OVERDUE_S: a node that may become silent is looked at more often."""


# Not notified of a shutdown: it sees that by itself, between two looks.
@actor(Message.WATCH_NODES, notify_shutdown=False, periodic=cron("* * * * *"))
def watch_nodes() -> None:
    """Lead for the rest of this minute, unless another does."""
    leader().lead()


@lru_cache(maxsize=1)
def leader() -> Leader:
    """Made when it is first needed: the other workers need neither SQL nor the time to import it."""
    from app.kit.redis.leader import Leader
    from app.kit.redis.lease import RedisLease

    def tick(at: datetime, _: Watch) -> bool:
        is_overdue = container.nodes.look_for_changes(at)
        for uid in container.joint.controller.due(at):
            post(container.broker, Message.RECONCILE, uid=uid)
        for uid in container.video.controller.due(at):
            post(container.broker, Message.RECONCILE_VIDEO, uid=uid)
        return is_overdue

    return Leader(
        RedisLease(container.redis, LEASE, ttl_s=LEASE_S),
        tick,
        work="nodes are watched",
        tick_s=LOOK_S,
        is_ending=lambda: container.broker.is_draining,
    )
