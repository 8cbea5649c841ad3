"""Tells whoever watches a key that what it names has changed: see ChangeHub."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

import redis

from app.kit.redis.records import NUDGES

logger = logging.getLogger(__name__)


def announcer(client: redis.Redis) -> Callable[[Collection[str]], None]:
    """What announces keys by this client. While Redis is away it does nothing: open pages ask again by themselves."""

    def announce(keys: Collection[str]) -> None:
        try:
            with client.pipeline(transaction=False) as pipe:
                for key in sorted(keys):
                    pipe.publish(f"{NUDGES}{key}", "")
                pipe.execute()
        except redis.RedisError as error:
            logger.debug("Open pages hear of these changes a little later: %s: %s", ", ".join(sorted(keys)), error)

    return announce
