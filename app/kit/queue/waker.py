"""Wakes those who would look by themselves a little later: controllers, leaders, and whoever watches a page."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from app.kit.queue.messages import BaseMessage, Sender, post
from app.kit.redis.records import NUDGES

BELL_TTL_S = 120
logger = logging.getLogger(__name__)


class Waker:
    """Redis being away keeps nobody from what they do: whoever is not woken looks by itself before long.

    Only for work that is found in that way. What must not be lost is sent by `post`.
    """

    def __init__(self, client: redis.Redis, sender: Sender) -> None:
        self._client = client
        self._sender = sender

    def send(self, message: BaseMessage, **kwargs: Any) -> None:
        """Has an actor do its work now.

        Args:
            message: its message.
            kwargs: the arguments of the actor.
        """
        with _unless_redis_is_away(f"{message} {' '.join(map(str, kwargs.values()))}".rstrip()):
            post(self._sender, message, **kwargs)

    def notify(self, *keys: str) -> None:
        """Has every process read these again that watches them.

        Args:
            keys: of records, as ChangeHub.watch takes them.
        """
        with _unless_redis_is_away(", ".join(keys), level=logging.DEBUG):
            for key in keys:
                self._client.publish(f"{NUDGES}{key}", "")

    def ring(self, bell: str) -> None:
        """Wakes a leader that waits for this bell between two looks. Many rings are as good as one.

        Args:
            bell: key of a list in Redis, on which the leader waits by BLPOP.
        """
        with _unless_redis_is_away(bell), self._client.pipeline(transaction=True) as pipe:
            pipe.lpush(bell, "")
            pipe.ltrim(bell, 0, 0)
            pipe.expire(bell, BELL_TTL_S)
            pipe.execute()


@contextmanager
def _unless_redis_is_away(who: str, level: int = logging.WARNING) -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        logger.log(level, "Not woken, and looks by itself a little later: %s (%s)", who, error)
