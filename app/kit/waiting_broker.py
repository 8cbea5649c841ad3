"""A Redis broker whose consumers wait on Redis instead of polling with a back-off.

Same keys and messages as Dramatiq's RedisBroker, so stock processes can produce for and consume from the same queues.
Three differences, each for a reason that was measured:

- An idle consumer blocks in `BLMOVE queue queue LEFT LEFT`. Moving the head of a list to its own head changes nothing,
  but it blocks while the list is empty and wakes on any push, by whomever. The fetch itself is the stock script, so no
  message depends on the wake-up. (Redis 6.2 or newer.)
- A queue named in `one_at_a_time` is fetched one message at a time whatever prefetch Dramatiq asks for, and the count
  of unfinished messages survives a reconnect: a busy worker never hides a second job.
- A time-out of the socket counts as a lost connection. Dramatiq takes it for an unknown error and drops the ack, so
  that a finished job would run again; and a fetch whose answer was lost would keep its messages until the process
  ends. Both are mended here: acks are repeated, and a new consumer puts back what its predecessor never saw. So that
  there is a new consumer then, a fetch is not repeated by the Redis client.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from uuid import uuid4

import redis
from dramatiq import Message, MessageProxy
from dramatiq.brokers.redis import MAINTENANCE_SCALE, RedisBroker, _RedisConsumer
from dramatiq.errors import ConnectionClosed
from redis.backoff import NoBackoff
from redis.retry import Retry

T = TypeVar("T")
MESSAGE_ID = "redis_message_id"
MAX_BLOCK_S = 2.0


class WaitingBroker(RedisBroker):
    """one_at_a_time: queues whose consumers hold one unfinished message each."""

    def __init__(self, *, client: redis.Redis, one_at_a_time: Iterable[str] = (), **options: Any) -> None:
        super().__init__(client=client, **options)
        self.one_at_a_time = frozenset(one_at_a_time)
        self.unfinished: dict[str, dict[str, str]] = {}
        self._fetcher = RedisBroker(client=_without_retries(client), **{**options, "middleware": []})
        self._fetcher.broker_id = self.broker_id

    @property
    def consumer_class(self) -> type[_WaitingConsumer]:
        return _WaitingConsumer

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Any:
        if queue_name in self.one_at_a_time:
            prefetch = 1
        return super().consume(queue_name, prefetch, timeout)

    def close(self) -> None:
        """Close every connection; a pool that was handed over is not closed by its client."""
        for client in (self.client, self._fetcher.client):
            client.connection_pool.disconnect()

    def do_fetch(self, queue_name: str, count: int) -> list[Any]:
        """Asked once: a silent second try would hide that the first has taken messages whose names never arrived."""
        fetched: list[Any] = self._fetcher.do_fetch(queue_name, count)
        return fetched

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        """As the stock broker, but a message may bring its own id in options["redis_message_id"].

        Then its place in the queue can be asked for, and it can be taken out, by a name the caller knows.
        """
        if delay is not None or MESSAGE_ID not in message.options:
            return super().enqueue(message, delay=delay)
        self.emit_before("enqueue", message, delay)
        self.do_enqueue(message.queue_name, message.options[MESSAGE_ID], message.encode())
        self.emit_after("enqueue", message, delay)
        return message

    def send(self, queue: str, actor: str, *, message_id: str | None = None, **kwargs: Any) -> None:
        """Enqueue work by name. message_id: unique within the queue; default random."""
        options = {MESSAGE_ID: message_id or str(uuid4())}
        self.enqueue(Message(queue_name=queue, actor_name=actor, args=(), kwargs=kwargs, options=options))

    def list_key(self, queue: str) -> str:
        return f"{self.namespace}:{queue}"

    def holds(self, queue: str, message_id: str) -> bool:
        """Is the message waiting in the queue or in some worker's hands?"""
        return bool(self.client.hexists(f"{self.list_key(queue)}.msgs", message_id))

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

    def waiting(self, queue: str) -> int:
        return int(self.client.llen(self.list_key(queue)))

    def adopt(self, dead_broker_id: str, queue: str) -> int:
        """Put back what a dead process had fetched and not acknowledged, at the head, where it came from.

        Returns how many messages.
        """
        acks = f"{self.namespace}:__acks__.{dead_broker_id}.{queue}"
        message_ids = [_text(m) for m in self.client.smembers(acks)]
        found = [message_id for message_id in message_ids if self.holds(queue, message_id)]
        with self.client.pipeline(transaction=True) as pipe:
            pipe.delete(acks)
            if found:
                pipe.lpush(self.list_key(queue), *found)
            pipe.execute()
        return len(found)

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


class _WaitingConsumer(_RedisConsumer):
    broker: WaitingBroker

    def __init__(self, broker: WaitingBroker, queue_name: str, prefetch: int, timeout: int) -> None:
        super().__init__(broker, queue_name, prefetch, timeout)
        # message id → redis id of what this process has in hand; kept by the broker, for it outlives this consumer.
        self.in_hand = broker.unfinished.setdefault(queue_name, {})
        self.freed = threading.Event()
        _connected(self._put_back_unseen)

    @property
    def outstanding_message_count(self) -> int:
        return len(self.in_hand) + len(self.message_cache)

    def ack(self, message: MessageProxy) -> None:
        self._settle(self.broker.do_ack, message)

    def nack(self, message: MessageProxy) -> None:
        self._settle(self.broker.do_nack, message)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        _connected(lambda: super(_WaitingConsumer, self).requeue(messages))

    def __next__(self) -> MessageProxy | None:
        return _connected(self._next)

    def _next(self) -> MessageProxy | None:
        if self.queue_name.endswith(".DQ"):
            return self._track(super().__next__())
        if not self.message_cache:
            room = self.prefetch - self.outstanding_message_count
            if room <= 0:
                self._wait_for_room()
                return None
            self.message_cache = self.broker.do_fetch(self.queue_name, room)
            if not self.message_cache:
                self._wait_for_message()
                return None
        return self._track(super().__next__())

    def _track(self, message: MessageProxy | None) -> MessageProxy | None:
        if message is not None:
            self.in_hand[message.message_id] = message.options[MESSAGE_ID]
        return message

    def _settle(self, command: Callable[[str, str], None], message: MessageProxy) -> None:
        # Only when Redis has it is the message out of hand: until then the caller repeats this.
        _connected(lambda: command(self.queue_name, message.options[MESSAGE_ID]))
        self.in_hand.pop(message.message_id, None)
        self.queued_message_ids.discard(message.message_id)
        self.freed.set()

    def _wait_for_room(self) -> None:
        self.freed.wait(self.timeout / 1000)
        self.freed.clear()

    def _wait_for_message(self) -> None:
        queue = self.broker.list_key(self.queue_name)
        self.broker.client.blmove(queue, queue, min(self.timeout / 1000, MAX_BLOCK_S), "LEFT", "LEFT")

    def _put_back_unseen(self) -> None:
        acks = f"{self.broker.namespace}:__acks__.{self.broker.broker_id}.{self.queue_name}"
        fetched = {_text(m) for m in self.broker.client.smembers(acks)}
        unseen = fetched - set(self.in_hand.values())
        if unseen:
            self.logger.warning("Putting back %d message(s) whose fetch was cut off.", len(unseen))
            self.broker.do_requeue(self.queue_name, *unseen)


def _without_retries(client: redis.Redis) -> redis.Redis:
    pool = client.connection_pool
    settings = {**pool.connection_kwargs, "retry": Retry(NoBackoff(), 0)}
    return redis.Redis(connection_pool=redis.ConnectionPool(connection_class=pool.connection_class, **settings))


def _connected(call: Callable[[], T]) -> T:
    """Report a lost or timed-out connection in the one form that Dramatiq repairs by itself."""
    try:
        return call()
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise ConnectionClosed(error) from None


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
