"""Who watches the nodes: a node that falls silent says nothing, so somebody has to look; likewise at services that wait
for what may have come meanwhile. Of two that do, one leads."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import dramatiq
from periodiq import cron

from actors import parts
from actors.joint_inference import reconcile
from actors.video import reconcile_video

if TYPE_CHECKING:
    from app.kit.redis.leader import Leader, Watch

QUEUE = "nodes"
LEASE, LEASE_S = "nodes:leader", 10.0
LOOK_S = 2.0


# Not notified of a shutdown: it sees that by itself, between two looks.
@dramatiq.actor(queue_name=QUEUE, max_retries=0, notify_shutdown=False, periodic=cron("* * * * *"))
def watch_nodes() -> None:
    """Lead for the rest of this minute, unless another does."""
    leader().lead()


@lru_cache(maxsize=1)
def leader() -> Leader:
    """Made when it is first needed: the other workers need neither SQL nor the time to import it."""
    from app.kit.redis.leader import Leader
    from app.kit.redis.lease import Lease

    assert parts.joint is not None and parts.video is not None  # with them come those who are told of changes

    def tick(at: datetime, _: Watch) -> bool:
        parts.nodes.look_for_changes(at)
        for uid in parts.joint.controller.due(at):
            reconcile.send(uid=uid)
        for uid in parts.video.controller.due(at):
            reconcile_video.send(uid=uid)
        return False

    return Leader(
        Lease(parts.redis, LEASE, ttl_s=LEASE_S),
        tick,
        work="nodes are watched",
        tick_s=LOOK_S,
        is_ending=lambda: parts.broker.is_draining,
    )
