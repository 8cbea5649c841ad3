"""A Redis broker whose consumers wait on Redis instead of polling with a back-off.

Same keys and messages as Dramatiq's RedisBroker, so stock processes can produce for and consume from the same queues.
How it waits and fetches is the consumer's matter (waiting_consumer). What else differs, each for a reason that was
measured:

- Each queue may have a prefetch of its own, whatever Dramatiq asks for, and the count of unfinished messages survives a
  reconnect: with a prefetch of one a busy worker never hides a second job.
- A message may bring its own id, so that its place in a queue can be asked for and it can be taken back.
- A signal is told only to the middleware that listens to it.
- A message can be prepared without being sent, so that a record's change can carry it along (records).
- A pulse of the clock takes the place of its predecessor that still waits: a queue that nobody serves does not grow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from secrets import token_hex
from typing import Any

import redis
from dramatiq import Message, Middleware
from dramatiq.brokers.redis import MAINTENANCE_SCALE
from dramatiq.common import q_name
from dramatiq.middleware import MiddlewareError

from app.kit.queue.blocking_consumer import MESSAGE_ID, BlockingConsumer, ConsumerBroker
from app.kit.queue.message import OutgoingMessage
from app.kit.redis.connections import Script, database

POST = """
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('RPUSH', KEYS[1], ARGV[1])
"""

# KEYS: queue, its texts, the newest pulse of each actor. ARGV: id, text, actor.
PULSE = """
local last = redis.call('HGET', KEYS[3], ARGV[3])
if last and redis.call('LINSERT', KEYS[1], 'BEFORE', last, ARGV[1]) > 0 then
  redis.call('LREM', KEYS[1], 1, last)
  redis.call('HDEL', KEYS[2], last)
else
  redis.call('RPUSH', KEYS[1], ARGV[1])
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[3], ARGV[3], ARGV[1])
"""
PULSE_TIME = "scheduled_at"
"""Option that Periodiq gives to a message which the clock sends, and to no other."""


class BlockingBroker(ConsumerBroker):
    """prefetch: queue → how many unfinished messages a consumer of it holds at most; Dramatiq's word for all others."""

    def __init__(self, *, client: redis.Redis, prefetch: Mapping[str, int] | None = None, **options: Any) -> None:
        self._before: dict[str, list[Callable[..., None]]] = {}
        self._after: dict[str, list[Callable[..., None]]] = {}
        super().__init__(client=client, **options)
        self._prefetch = dict(prefetch or {})
        self._post = Script(self.connections, POST)
        self._pulse = Script(self.connections, PULSE)

    @property
    def consumer_class(self) -> type[BlockingConsumer]:
        return BlockingConsumer

    def emit_before(self, signal: str, *args: Any, **kwargs: Any) -> None:
        listeners = self._before.get(signal)
        if listeners is None:
            listeners = self._before[signal] = self._listeners(f"before_{signal}")
        for listener in listeners:
            try:
                listener(self, *args, **kwargs)
            except MiddlewareError:
                raise
            except Exception:  # as the stock broker: a bystander's fault must not stop the work
                self.logger.critical("Unexpected failure in before_%s of %r.", signal, listener, exc_info=True)

    def emit_after(self, signal: str, *args: Any, **kwargs: Any) -> None:
        listeners = self._after.get(signal)
        if listeners is None:
            listeners = self._after[signal] = self._listeners(f"after_{signal}")[::-1]
        for listener in listeners:
            try:
                listener(self, *args, **kwargs)
            except Exception:  # likewise
                self.logger.critical("Unexpected failure in after_%s of %r.", signal, listener, exc_info=True)

    def add_middleware(self, *args: Any, **kwargs: Any) -> None:
        super().add_middleware(*args, **kwargs)
        self._before.clear()
        self._after.clear()

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Any:
        return super().consume(queue_name, self._prefetch.get(queue_name, prefetch), timeout)

    def claimed(self, queue: str, record_id: str) -> dict[str, str] | None:
        """The record that the fetch of its message has claimed; told once, to who begins the work."""
        return self.unsettled(queue).claimed.pop(record_id, None)

    def unbegun(self, queue: str) -> list[str]:
        """The records that fetches have claimed and whose work has not begun."""
        return list(self.unsettled(queue).claimed)

    @property
    def is_busy(self) -> bool:
        """Has this process messages in hand that are not dealt with?"""
        return any(messages.unfinished for queue, messages in list(self._unsettled.items()) if queue == q_name(queue))

    def drain(self) -> None:
        """Fetch no more: this process is about to end. What it has in hand it may finish."""
        self.is_draining = True
        self.wake()

    def close(self) -> None:
        """Close every connection; a pool that was handed over is not closed by its client."""
        self.connections.close()
        self.client.connection_pool.disconnect()

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        """As the stock broker, but a message may bring its own id in options["redis_message_id"].

        Then its place in the queue can be asked for, and it can be taken out, by a name the caller knows. Of the pulses
        of an actor only the newest waits.
        """
        is_pulse = PULSE_TIME in message.options
        if delay is not None or not (is_pulse or MESSAGE_ID in message.options):
            return super().enqueue(message, delay=delay)
        if is_pulse:
            message = message.copy(options={MESSAGE_ID: message.message_id})
        self.emit_before("enqueue", message, delay)
        key, args = self.list_key(message.queue_name), [message.options[MESSAGE_ID], message.encode()]
        if is_pulse:
            self._pulse(keys=[key, f"{key}.msgs", f"{key}.pulses"], args=[*args, message.actor_name])
        else:
            self._post(keys=[key, f"{key}.msgs"], args=args)
        self.emit_after("enqueue", message, delay)
        return message

    def send(self, queue: str, actor: str, *, message_id: str | None = None, **kwargs: Any) -> None:
        """Enqueue work by name.

        Args:
            queue: its name.
            actor: whose work it is.
            message_id: unique within the queue; None: a random one.
            kwargs: the actor's arguments.
        """
        self.enqueue(_message(queue, actor, message_id, kwargs))

    def prepare(self, queue: str, actor: str, *, message_id: str | None = None, **kwargs: Any) -> OutgoingMessage:
        """The same as a value, for somebody else to put on its queue in one step with something of their own."""
        message = _message(queue, actor, message_id, kwargs)
        self.emit_before("enqueue", message, None)
        key = self.list_key(queue)
        return OutgoingMessage(database(self.client), key, f"{key}.msgs", message.options[MESSAGE_ID], message.encode())

    def holds(self, queue: str, message_id: str) -> bool:
        """Is the message waiting in the queue or in some worker's hands?"""
        return bool(self.held(queue, [message_id]))

    def held(self, queue: str, message_ids: Sequence[str]) -> set[str]:
        """Those of the messages that wait in the queue or are in some worker's hands."""
        texts: Any = self.client.hmget(f"{self.list_key(queue)}.msgs", message_ids) if message_ids else []
        return {message_id for message_id, text in zip(message_ids, texts, strict=True) if text is not None}

    def position(self, queue: str, message_id: str) -> int | None:
        """How many messages are ahead; None when it does not wait (any more)."""
        place: Any = self.client.lpos(self.list_key(queue), message_id)
        return None if place is None else int(place)

    def take_back(self, queue: str, message_id: str) -> bool:
        """Remove a waiting message. True: no worker will get it any more."""
        with self.client.pipeline(transaction=True) as pipe:
            pipe.lrem(self.list_key(queue), 1, message_id)
            removed = pipe.execute()[0]
        if removed:
            self.client.hdel(f"{self.list_key(queue)}.msgs", message_id)
        return bool(removed)

    def raise_dead(self, queue: str, message_id: str) -> None:
        """Take a message off the dead letters, for it is to be sent again."""
        dead = f"{self.list_key(queue)}.XQ"
        with self.client.pipeline(transaction=True) as pipe:
            pipe.zrem(dead, message_id)
            pipe.hdel(f"{dead}.msgs", message_id)
            pipe.execute()

    def oldest(self, queue: str, count: int) -> list[str]:
        """The ids of the messages that have waited longest."""
        ids: Any = self.client.lrange(self.list_key(queue), 0, count - 1)
        return [name.decode() if isinstance(name, bytes) else name for name in ids]

    def waiting(self, queue: str) -> int:
        return int(self.client.llen(self.list_key(queue)))

    def requeue_from(self, dead_broker_id: str, queue: str) -> int:
        """Put back what a dead process had fetched and not acknowledged, at the head, where it came from.

        Returns how many messages.
        """
        abandoned = self.held(queue, sorted(self.fetched(dead_broker_id, queue)))
        with self.client.pipeline(transaction=True) as pipe:
            pipe.delete(self.acks_key(dead_broker_id, queue))
            if abandoned:
                pipe.lpush(self.list_key(queue), *abandoned)
            pipe.execute()
        return len(abandoned)

    def maintain(self, queues: Iterable[str]) -> None:
        """Run Dramatiq's maintenance now: put back the messages of processes that have been silent too long.

        Left to itself it runs inside one of a thousand calls only.
        """
        chance, self.maintenance_chance = self.maintenance_chance, MAINTENANCE_SCALE
        try:
            for queue in queues:
                self.do_qsize(queue)
        finally:
            self.maintenance_chance = chance

    def _listeners(self, name: str) -> list[Callable[..., None]]:
        """Those who have something to say to this signal; most have not, and there are eight signals to a message."""
        silent = getattr(Middleware, name)
        heard = (m for m in self.middleware if getattr(type(m), name, silent) is not silent)
        return [getattr(middleware, name) for middleware in heard]


def _message(queue: str, actor: str, message_id: str | None, kwargs: dict[str, Any]) -> Message[Any]:
    unique = message_id or token_hex(16)
    options = {MESSAGE_ID: unique}
    return Message(queue_name=queue, actor_name=actor, args=(), kwargs=kwargs, options=options, message_id=unique)
