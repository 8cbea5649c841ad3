"""A Redis broker whose consumers wait on Redis instead of polling with a back-off.

Same keys and messages as Dramatiq's RedisBroker, so stock processes can produce for and consume from the same queues.
The consumer implements waiting and fetching (blocking_consumer). Other differences, each with a measured reason:

- Each queue may have its own prefetch, whatever Dramatiq requests, and the count of unfinished messages survives a
  reconnect: with a prefetch of one a busy worker never hides a second job.
- A message may have a given id, so that its position in a queue can be queried and it can be removed.
- A signal is sent only to the middleware that handles it.
- A message can be prepared without being sent, so that a change of a record can include it (records).
- A pulse of the clock replaces its predecessor if that still waits: a queue without a consumer does not grow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from json import JSONEncoder
from typing import Any

import redis
from dramatiq import Message, Middleware
from dramatiq.brokers.redis import MAINTENANCE_SCALE
from dramatiq.common import current_millis, q_name
from dramatiq.middleware import MiddlewareError

from app.kit.observability import tracing
from app.kit.queue.blocking_consumer import BlockingConsumer, ConsumerBroker
from app.kit.queue.unsettled import MESSAGE_ID, FinalCall
from app.kit.redis import record_scripts
from app.kit.redis.connections import Script, ScriptCall
from app.kit.redis.records import OutgoingMessage
from app.kit.text import json_codec
from app.kit.text.json_values import JsonObject

# KEYS: queue, its texts, the message whose work this ends (record_scripts.ACKNOWLEDGE). ARGV: id, text.
POST = (
    record_scripts.ACKNOWLEDGE
    + """
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('RPUSH', KEYS[1], ARGV[1])
used = KEYS[3]
acknowledge(3)
"""
)

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
to_json = JSONEncoder(separators=(",", ":")).encode
PULSE_TIME = "scheduled_at"
"""Option that Periodiq sets on the messages of its clock, and on no others."""


class BlockingBroker(ConsumerBroker):
    """
    Args:
        prefetch: queue → maximum number of unfinished messages of a consumer; Dramatiq's value for all others.
    """

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
        for listener in self._list_before(signal):
            try:
                listener(self, *args, **kwargs)
            except MiddlewareError:
                raise
            except Exception:  # like the stock broker: a failing middleware must not stop the work
                self.logger.critical("Unexpected failure in before_%s of %r.", signal, listener, exc_info=True)

    def emit_after(self, signal: str, *args: Any, **kwargs: Any) -> None:
        listeners = self._after.get(signal)
        if listeners is None:
            listeners = self._after[signal] = self._find_listeners(f"after_{signal}")[::-1]
        for listener in listeners:
            try:
                listener(self, *args, **kwargs)
            except Exception:  # as in emit_before
                self.logger.critical("Unexpected failure in after_%s of %r.", signal, listener, exc_info=True)

    def add_middleware(self, *args: Any, **kwargs: Any) -> None:
        super().add_middleware(*args, **kwargs)
        self._before.clear()
        self._after.clear()

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Any:
        return super().consume(queue_name, self._prefetch.get(queue_name, prefetch), timeout)

    def claimed(self, queue: str, record_id: str) -> dict[str, str] | None:
        """Returns the record claimed by the fetch of its message; once, to the code that starts the work."""
        return self.unsettled(queue).claimed.pop(record_id, None)

    def unbegun(self, queue: str) -> list[str]:
        """The records that fetches have claimed and whose work has not started."""
        return list(self.unsettled(queue).claimed)

    @property
    def is_busy(self) -> bool:
        """Whether this process has unfinished messages."""
        return any(messages.is_busy for queue, messages in list(self._unsettled.items()) if queue == q_name(queue))

    def drain(self) -> None:
        """Stops fetching: this process is about to end. It may finish the messages it has."""
        self.is_draining = True
        self.wake()

    def close(self) -> None:
        """Closes every connection; a client does not close a pool that was passed to it."""
        self.connections.close()
        self.client.connection_pool.disconnect()

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        """Like the stock broker, but a message may have its own id in options["redis_message_id"].

        The caller can then query its position in the queue and remove it. Only the newest pulse of an actor waits.
        """
        is_pulse = PULSE_TIME in message.options
        if delay is not None or not (is_pulse or MESSAGE_ID in message.options):
            return super().enqueue(message, delay=delay)
        if is_pulse:
            message = message.copy(options={MESSAGE_ID: message.message_id})
        self.emit_before("enqueue", message, delay)
        key, args = self.list_key(message.queue_name), [message.options[MESSAGE_ID], to_json(vars(message)).encode()]
        if is_pulse:
            self._pulse(keys=[key, f"{key}.msgs", f"{key}.pulses"], args=[*args, message.actor_name])
        else:
            self._post(keys=[key, f"{key}.msgs"], args=args)
        self.emit_after("enqueue", message, delay)
        return message

    def send(self, queue: str, actor: str, *, message_id: str | None = None, **kwargs: Any) -> None:
        """Enqueues work by name.

        Args:
            queue: the name of the queue.
            actor: the actor that runs it.
            message_id: unique within the queue; None: a random one.
            kwargs: the actor's arguments.
        """
        self.enqueue(Message(**_make_fields(queue, actor, message_id, kwargs)))

    def prepare(self, queue: str, actor: str, *, message_id: str | None = None, **kwargs: Any) -> OutgoingMessage:
        """Returns the message as a value, so that it can be queued in one step with other changes. NaN and infinities
        become null."""
        fields = _make_fields(queue, actor, message_id, kwargs)
        if self._list_before("enqueue"):
            message: Message[Any] = Message(**fields)
            self.emit_before("enqueue", message, None)
            fields = vars(message)
        key = self.list_key(queue)
        return OutgoingMessage(self.database, key, f"{key}.msgs", fields["message_id"], json_codec.encode(fields))

    def finish(self, queue: str, call: ScriptCall, on_reply: Callable[[Any], None]) -> None:
        """Ends the work on a message with a call that acknowledges it. The call is made directly if this thread has no
        message of the queue, and if it is traced.

        Args:
            queue: the queue of the message.
            call: works from the queues' database, acknowledges a message (record_scripts.ACKNOWLEDGE); may be
                repeated.
            on_reply: receives the reply; must not depend on Redis.

        Raises:
            redis.RedisError: the call was made directly, and Redis does not answer.
        """
        final = FinalCall(call, on_reply)
        if tracing.is_on() or not self.unsettled(queue).leave(final):
            final.replied(call())

    def post_call(self, message: OutgoingMessage) -> ScriptCall:
        """Returns the call that enqueues a prepared message."""
        return ScriptCall(self._post, [message.list_key, message.texts_key], [message.message_id, message.text])

    def holds(self, queue: str, message_id: str) -> bool:
        """Whether the message waits in the queue or a worker holds it."""
        return bool(self.held(queue, [message_id]))

    def held(self, queue: str, message_ids: Sequence[str]) -> set[str]:
        """Returns the messages that wait in the queue or are held by a worker."""
        texts: Any = self.client.hmget(f"{self.list_key(queue)}.msgs", message_ids) if message_ids else []
        return {message_id for message_id, text in zip(message_ids, texts, strict=True) if text is not None}

    def position(self, queue: str, message_id: str) -> int | None:
        """Returns how many messages are ahead; None if it does not wait (any more)."""
        place: Any = self.client.lpos(self.list_key(queue), message_id)
        return None if place is None else int(place)

    def take_back(self, queue: str, message_id: str) -> bool:
        """Removes a waiting message. True: no worker will get it any more."""
        with self.client.pipeline(transaction=True) as pipe:
            pipe.lrem(self.list_key(queue), 1, message_id)
            removed = pipe.execute()[0]
        if removed:
            self.client.hdel(f"{self.list_key(queue)}.msgs", message_id)
        return bool(removed)

    def raise_dead(self, queue: str, message_id: str) -> None:
        """Removes a message from the dead letters, because it is sent again."""
        dead = f"{self.list_key(queue)}.XQ"
        with self.client.pipeline(transaction=True) as pipe:
            pipe.zrem(dead, message_id)
            pipe.hdel(f"{dead}.msgs", message_id)
            pipe.execute()

    def oldest(self, queue: str, count: int) -> list[str]:
        """Returns the ids of the messages that have waited longest."""
        ids: Any = self.client.lrange(self.list_key(queue), 0, count - 1)
        return [name.decode() if isinstance(name, bytes) else name for name in ids]

    def waiting(self, queue: str) -> int:
        return int(self.client.llen(self.list_key(queue)))

    def requeue_from(self, dead_broker_id: str, queue: str) -> int:
        """Returns messages that a dead process had fetched and not acknowledged to the head of the queue.

        Returns the number of messages.
        """
        abandoned = self.held(queue, sorted(self.fetched(dead_broker_id, queue)))
        with self.client.pipeline(transaction=True) as pipe:
            pipe.delete(self.acks_key(dead_broker_id, queue))
            if abandoned:
                pipe.lpush(self.list_key(queue), *abandoned)
            pipe.execute()
        return len(abandoned)

    def maintain(self, queues: Iterable[str]) -> None:
        """Runs Dramatiq's maintenance now: requeues the messages of processes without a heartbeat.

        Otherwise it runs only in one of a thousand calls.
        """
        chance, self.maintenance_chance = self.maintenance_chance, MAINTENANCE_SCALE
        try:
            for queue in queues:
                self.do_qsize(queue)
        finally:
            self.maintenance_chance = chance

    def _list_before(self, signal: str) -> list[Callable[..., None]]:
        listeners = self._before.get(signal)
        if listeners is None:
            listeners = self._before[signal] = self._find_listeners(f"before_{signal}")
        return listeners

    def _find_listeners(self, name: str) -> list[Callable[..., None]]:
        """Returns the middleware that handles this signal; most does not, and there are eight signals per message."""
        silent = getattr(Middleware, name)
        receivers = (m for m in self.middleware if getattr(type(m), name, silent) is not silent)
        return [getattr(middleware, name) for middleware in receivers]


def _make_fields(queue: str, actor: str, message_id: str | None, kwargs: JsonObject) -> JsonObject:
    """Of a message. Creating Dramatiq's own object takes several times as long."""
    unique = message_id or os.urandom(16).hex()
    return {
        "queue_name": queue,
        "actor_name": actor,
        "args": (),
        "kwargs": kwargs,
        "options": {MESSAGE_ID: unique},
        "message_id": unique,
        "message_timestamp": current_millis(),
    }
