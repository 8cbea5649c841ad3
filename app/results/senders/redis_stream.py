"""Rows and events to a stream of Redis: an entry each, all of a try or none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.kit.network.answer_limit import BoundedSocket
from app.kit.network.checked_post import NotSent
from app.results.model.sink import Delivery, Sink, stream_of
from app.results.senders.server import NetworkSender, server_of

if TYPE_CHECKING:
    from redis import Redis

MOST_ENTRIES = 100_000
"""About this many of the newest entries stay in a stream."""


class RedisSender(NetworkSender):
    """Writes to a stream."""

    def send(self, sink: Sink, deliveries: Sequence[Delivery]) -> str:
        """Returns why they were not written; empty if they are in the stream."""
        from redis import Connection, ConnectionPool, Redis, RedisError  # imported only when something is sent
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        class BoundedConnection(Connection):
            def _connect(self) -> BoundedSocket:
                return BoundedSocket(super()._connect())  # type: ignore[no-untyped-call]  # redis-py does not annotate it

        is_late = threading.Event()
        try:
            server = server_of(sink, self.networks)
            database, name = stream_of(server.parts.path)
            pool = ConnectionPool(
                BoundedConnection,
                host=server.address,
                port=server.port,
                db=database,
                username=server.user or None,
                password=server.password,
                socket_timeout=self.try_s / 2,
                socket_connect_timeout=self.try_s / 2,
                retry=Retry(NoBackoff(), 0),
            )
            with (
                Redis.from_pool(pool) as client,
                client.pipeline(transaction=True) as pipe,
                _end_after(self.try_s, client, is_late),
            ):
                for delivery in deliveries:
                    pipe.xadd(name, {"event": json.dumps(delivery.envelope)}, maxlen=MOST_ENTRIES, approximate=True)
                pipe.execute()
        except NotSent as error:
            return str(error)
        except (RedisError, OSError, ValueError, AttributeError) as error:  # also what is cut off while it reads
            problem = str(error).rpartition(" of pipeline caused error: ")[2] or type(error).__name__
            return f"no answer within {self.try_s:g} s" if is_late.is_set() else f"Redis: {problem}"
        return ""


@contextmanager
def _end_after(try_s: float, client: Redis, is_late: threading.Event) -> Iterator[None]:
    """Closes the client's connections after that time, since a server that sends single bytes could prolong a try
    forever."""

    def end() -> None:
        is_late.set()
        client.connection_pool.disconnect()

    timer = threading.Timer(try_s, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
