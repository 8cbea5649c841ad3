"""Who wakes whom: users the scheduler's leader, and the leader the actor that converts what a task left.

The leader waits on a list in Redis between two looks; many kicks are as good as one.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

import redis

from app.training.model import Task
from app.training.service.scheduling import OnSuccess
from app.training.service.tasks import Kick

KEY = "training:kick"
RESULTS = "training_results"
TTL_S = 120
logger = logging.getLogger(__name__)


class Broker(Protocol):
    def send(self, queue: str, actor: str, **kwargs: Any) -> None: ...


def kick_by(client: redis.Redis) -> Kick:
    """Tasks are taken while Redis is away: the scheduler looks by itself every few seconds."""

    def kick() -> None:
        try:
            with client.pipeline(transaction=True) as pipe:
                pipe.lpush(KEY, "")
                pipe.ltrim(KEY, 0, 0)
                pipe.expire(KEY, TTL_S)
                pipe.execute()
        except redis.RedisError as error:
            logger.warning("The training scheduler is not woken and will look by itself: %s", error)

    return kick


def wait_for_kick(client: redis.Redis, timeout_s: float) -> bool:
    """Was it woken? timeout_s must be shorter than the client's socket_timeout. Raises redis.RedisError."""
    return client.blpop([KEY], timeout=timeout_s) is not None


def convert_by(broker: Broker) -> OnSuccess:
    """Redis being away is no fault of the task: what nobody was told of is looked for every minute."""

    def convert(task: Task) -> None:
        try:
            broker.send(RESULTS, "convert_results", task_id=task.task_id)
        except redis.RedisError as error:
            logger.warning("What task %s left is converted a little later: %s", task.task_id, error)

    return convert
