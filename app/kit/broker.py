"""Makes the broker and its Redis client. `app` enqueues by name through it and never imports an actor."""

from __future__ import annotations

from typing import Any

import redis
from dramatiq import Middleware
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from app.kit.waiting_broker import WaitingBroker

NAMESPACE = "queue"  # so that the keys are the requirement's: queue:onnx, queue:bie, queue:nef, queue:done
SOCKET_TIMEOUT_S = 6.0  # longer than any blocking command here, see waiting_broker.MAX_BLOCK_S


def connect(url: str, **options: Any) -> redis.Redis:
    """A client that retries twice, within half a second, and then raises.

    redis-py's from_url would bring no retries at all and its default client ten.
    """
    return redis.Redis.from_url(
        url,
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=2.0,
        health_check_interval=30,
        retry=Retry(ExponentialBackoff(cap=0.4, base=0.1), 2),
        **options,
    )


def make_broker(
    url: str, *, one_at_a_time: tuple[str, ...], middleware: list[Middleware] | None = None
) -> WaitingBroker:
    return WaitingBroker(
        client=connect(url), namespace=NAMESPACE, one_at_a_time=one_at_a_time, middleware=middleware or []
    )
