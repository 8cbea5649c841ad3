"""Wakes processes that would check by themselves a little later: controllers, leaders, and viewers of a page."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import redis

from app.kit.queue.messages import BaseMessage, Sender, post
from app.kit.redis.records import CHANGES

BELL_TTL_S = 120
WAITING_TTL_S = 30
"""Seconds for which a message counts as waiting: after a longer wait, or if it was lost, the same is sent again."""
logger = logging.getLogger(__name__)


class Waker:
    """An unreachable Redis blocks nobody: a process that is not woken checks by itself soon.

    Use it only for such work. Messages that must not be lost are sent by `post`.
    """

    def __init__(self, client: redis.Redis, sender: Sender) -> None:
        self._client = client
        self._sender = sender

    def send(self, message: BaseMessage, **kwargs: Any) -> None:
        """Makes an actor work now.

        Args:
            message: its message.
            kwargs: the arguments of the actor.
        """
        with _tolerate_redis_away(f"{message} {' '.join(map(str, kwargs.values()))}".rstrip()):
            post(self._sender, message, **kwargs)

    def send_once(self, message: BaseMessage, **kwargs: Any) -> None:
        """As `send`, unless the same message waits already. Its actor calls `begun` before it reads anything.

        Args:
            message: its message.
            kwargs: the arguments of the actor.
        """
        key = _build_waiting_key(message, kwargs)
        with _tolerate_redis_away(f"{message} {' '.join(map(str, kwargs.values()))}".rstrip()):
            if self._client.set(key, "", nx=True, ex=WAITING_TTL_S):
                post(self._sender, message, **kwargs)

    def begun(self, message: BaseMessage, **kwargs: Any) -> None:
        """Records that an actor has begun, so that what is sent from now on has to be done once more."""
        with _tolerate_redis_away(str(message), level=logging.DEBUG):
            self._client.delete(_build_waiting_key(message, kwargs))

    def notify(self, *keys: str) -> None:
        """Makes every process that watches these records read them again.

        Args:
            keys: the keys of records, as in ChangeHub.watch.
        """
        with _tolerate_redis_away(", ".join(keys), level=logging.DEBUG):
            for key in keys:
                self._client.publish(f"{CHANGES}{key}", "")

    def ring(self, bell: str) -> None:
        """Wakes a leader that waits for this bell between two ticks. Several rings have the effect of one.

        Args:
            bell: key of a list in Redis, on which the leader waits with BLPOP.
        """
        with _tolerate_redis_away(bell), self._client.pipeline(transaction=True) as pipe:
            pipe.lpush(bell, "")
            pipe.ltrim(bell, 0, 0)
            pipe.expire(bell, BELL_TTL_S)
            pipe.execute()


def _build_waiting_key(message: BaseMessage, kwargs: Mapping[str, Any]) -> str:
    return f"waiting:{message}:{json.dumps(kwargs, sort_keys=True)}"


@contextmanager
def _tolerate_redis_away(who: str, level: int = logging.WARNING) -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        logger.log(level, "Not woken, and looks by itself a little later: %s (%s)", who, error)
