"""Creates the broker and its Redis client. `app` enqueues by name through it and never imports an actor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import redis
from dramatiq import Middleware
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry

from app.kit.queue.blocking_broker import BlockingBroker

NAMESPACE = "queue"  # so that the keys are the requirement's: queue:onnx, queue:bie, queue:nef, queue:done
SOCKET_TIMEOUT_S = 6.0  # longer than any blocking command here, see blocking_consumer.MAX_BLOCK_S

LOOK_TIMEOUT_S = 1.0


def connect(url: str, **options: Any) -> redis.Redis:
    """Creates a client that retries twice within half a second if the connection is refused or lost, and then raises.

    redis-py's from_url would not retry at all, and its default client ten times. A timeout is raised at once: the
    command may have been executed, so the caller decides whether to repeat it; and each attempt takes seconds, plus
    three for each new connection.
    """
    return redis.Redis.from_url(
        url,
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=2.0,
        health_check_interval=30,
        retry=Retry(ExponentialBackoff(cap=0.4, base=0.1), 2, supported_errors=(redis.ConnectionError,)),
        **options,
    )


def connect_to_look(url: str) -> redis.Redis:
    """Creates a client for status reports: it tries once, and soon reports that Redis is unreachable or stalls."""
    return redis.Redis.from_url(
        url, socket_timeout=LOOK_TIMEOUT_S, socket_connect_timeout=LOOK_TIMEOUT_S, retry=Retry(NoBackoff(), 0)
    )


def make_broker(
    url: str, *, prefetch: Mapping[str, int] | None = None, middleware: list[Middleware] | None = None
) -> BlockingBroker:
    """Returns a broker with the product's namespace, not connected yet.

    Args:
        url: of Redis.
        prefetch: the number of messages that a worker takes at once, by queue; None: the broker's own.
        middleware: in the order in which it is called.
    """
    return BlockingBroker(client=connect(url), namespace=NAMESPACE, prefetch=prefetch, middleware=middleware or [])
