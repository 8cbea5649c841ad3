"""A consumer that waits on Redis, and acknowledges finished messages in the same round trip as the next fetch.

One script acknowledges finished messages and fetches as many as there is room for; it changes the keys like the stock
script. If the last fetch left nothing in the queue, `BLMOVE queue queue LEFT LEFT` precedes the next one in the same
round trip, after the acknowledgements. Moving the head of a list to its own head changes nothing, but it blocks while
the list is empty and wakes on any push; the fetch then follows at once on the server.

If a message concerns a record, the fetch can claim the record for the receiver of the message, and returns it
(Claimer).

Work on a message may end with a call of its own, a change of a record or another message, which acknowledges the
message in the same step (FinalCall). If no other message is in hand, the call, the wait and the next fetch are sent as
soon as the work leaves the call: whoever it wakes starts at once. The replies are handled when the work has ended.

Pending acknowledgements are kept, also across a lost connection, until Redis has received them; repeating them does no
harm. A fetch is never repeated by the client: a silent retry would hide that the first attempt has taken messages whose
names never arrived. Instead a new consumer returns the messages that its predecessor never saw.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import redis
from dramatiq import Message, MessageProxy
from dramatiq.brokers.redis import RedisBroker, _RedisConsumer
from dramatiq.common import current_millis, q_name
from dramatiq.errors import ConnectionClosed

from app.kit.queue.inline_worker import Inline
from app.kit.queue.unsettled import MESSAGE_ID, FinalCall, Outcome, UnsettledMessages
from app.kit.redis import record_scripts
from app.kit.redis.connections import Command, ConnectionPool, RedisConnection, Script, as_map, database
from app.kit.text import json_codec

T = TypeVar("T")
MAX_BLOCK_S = 5.0
"""Maximum duration of the first wait after a message; less than the socket's timeout."""
IDLE_BLOCKS = 4
"""How many times as long the next waits are, as long as no message arrives: a process without work seldom wakes up.
After each wait comes a heartbeat; Dramatiq considers a process dead after a minute without one."""

# KEYS: namespace. ARGV: now in ms ('' if no heartbeat is due), broker id, queue, how many to fetch, number of parts of
# the claim on their records (0 for none), number of ids acked, the claim, ids acked, ids to go to the dead letters.
# Returns how many wait still, the texts of those fetched, and the records claimed with them.
EXCHANGE = (
    record_scripts.CLAIM
    + """
local heartbeats, queue = KEYS[1] .. ':__heartbeats__', KEYS[1] .. ':' .. ARGV[3]
local texts, fetched = queue .. '.msgs', KEYS[1] .. ':__acks__.' .. ARGV[2] .. '.' .. ARGV[3]
if ARGV[1] ~= '' then redis.call('ZADD', heartbeats, ARGV[1], ARGV[2]) end
local last_of_claim = 6 + ARGV[5]
local last_ack = last_of_claim + ARGV[6]
for i = last_of_claim + 1, last_ack do
  if redis.call('SREM', fetched, ARGV[i]) > 0 then redis.call('HDEL', texts, ARGV[i]) end
end
for i = last_ack + 1, #ARGV do
  local text = redis.call('SREM', fetched, ARGV[i]) > 0 and redis.call('HGET', texts, ARGV[i])
  if text then
    local dead = string.gsub(queue, '%.DQ$', '') .. '.XQ'
    redis.call('ZADD', dead, ARGV[1], ARGV[i])
    redis.call('HSET', dead .. '.msgs', ARGV[i], text)
    redis.call('HDEL', texts, ARGV[i])
  end
end
local ids = ARGV[4] ~= '0' and redis.call('LPOP', queue, ARGV[4])
if not ids then return {0, {}, {}} end
redis.call('SADD', fetched, unpack(ids))
local left = #ids == tonumber(ARGV[4]) and redis.call('LLEN', queue) or 0
local found = redis.call('HMGET', texts, unpack(ids))
for i, id in ipairs(ids) do
  if not found[i] then redis.call('SREM', fetched, id) end -- nobody will acknowledge it
end
return {left, found, ARGV[5] == '0' and {} or claimed({unpack(ARGV, 7, last_of_claim)}, ids, found)}
"""
)
HEARTBEAT_S = 1.0
DRAIN_S = 0.05
"""How soon a consumer that fetches no more notices that it should end."""
MAX_FETCH = 1000
"""Maximum number of values that a script can unpack at once."""


class Claimer(Protocol):
    """Claims the records of messages, for a worker that processes each as soon as it is fetched."""

    claim: Sequence[Any]
    """What a fetch does to the record: see Records.claim_by_fetch."""

    def give_back(self, record_id: str) -> None:
        """Undoes the claim: the message goes back unprocessed."""


class Delivery(MessageProxy):
    """A message with its own fields: they are read twenty times, and Dramatiq's proxy needs a call for each.

    The message itself is created for the few that need it.
    """

    def __init__(self, text: str) -> None:
        fields = json_codec.decode(text)
        vars(self).update(fields, args=tuple(fields["args"]), failed=False, _exception=None)

    @cached_property
    def _message(self) -> Message[Any]:  # type: ignore[override]  # an attribute of the base class
        return Message(**{field.name: vars(self)[field.name] for field in dataclasses.fields(Message)})


@dataclass(frozen=True)
class SentRequest:
    """What was sent, and what its replies are about, in this order: scripts, final calls, and the fetch."""

    scripts: Sequence[Script]
    finals: list[FinalCall]
    outcomes: Sequence[Outcome]
    """The outcomes in the fetch."""
    fetch_length: int
    """In commands."""


class ConsumerBroker(RedisBroker):
    """What a consumer needs from its broker beyond Dramatiq's interface."""

    def __init__(self, *, client: redis.Redis, **options: Any) -> None:
        super().__init__(client=client, **options)
        self.is_draining = False
        self.database = database(client)
        self.work_inline: Inline | None = None
        self.claimers: dict[str, Claimer] = {}
        self.connections = ConnectionPool(client)
        self.exchange = Script(self.connections, EXCHANGE)
        self._unsettled: dict[str, UnsettledMessages] = {}
        self._waiting: dict[str, int] = {}

    def unsettled(self, queue: str) -> UnsettledMessages:
        if queue not in self._unsettled:
            self._unsettled[queue] = UnsettledMessages()
        return self._unsettled[queue]

    def waits(self, queue: str, connection_id: int) -> None:
        """Redis' id of the connection on which this queue is waited for."""
        self._waiting[queue] = connection_id

    def wake(self) -> None:
        """Ends every wait of this process for messages. If Redis is unreachable, they have already ended."""
        for messages in list(self._unsettled.values()):
            messages.may_have_room.set()
        with contextlib.suppress(redis.RedisError):
            for connection_id in list(self._waiting.values()):
                self.client.client_unblock(connection_id)

    def list_key(self, queue: str) -> str:
        return f"{self.namespace}:{queue}"

    def fetched(self, broker_id: str, queue: str) -> set[str]:
        """Returns the ids of the messages that a process has fetched and not acknowledged."""
        members: Any = self.client.smembers(self.acks_key(broker_id, queue))
        return {m.decode() if isinstance(m, bytes) else m for m in members}

    def acks_key(self, broker_id: str, queue: str) -> str:
        return f"{self.namespace}:__acks__.{broker_id}.{queue}"


class BlockingConsumer(_RedisConsumer):
    """Waits on one queue, and claims the records of its messages.

    Args:
        prefetch: maximum number of unfinished messages.
        timeout: of one wait, in ms.
    """

    broker: ConsumerBroker

    def __init__(self, broker: ConsumerBroker, queue_name: str, prefetch: int, timeout: int) -> None:
        super().__init__(broker, queue_name, prefetch, timeout)
        self.unsettled = broker.unsettled(queue_name)
        self._connection = RedisConnection(broker.client, encoding="utf-8")
        self._look_s = timeout / 1000
        self._is_of_delayed = queue_name != q_name(queue_name)
        self._is_empty = self._is_idle = False
        self._known = {broker.exchange.sha}
        self._request: SentRequest | None = None
        self._heartbeat_at = -math.inf
        self._list = broker.list_key(queue_name)
        self._own_keys = (broker.database, broker.acks_key(broker.broker_id, queue_name), f"{self._list}.msgs")
        _call_connected(self._begin)

    @property
    def outstanding_message_count(self) -> int:
        return self.unsettled.unfinished + len(self.message_cache)

    def ack(self, message: MessageProxy) -> None:
        self.unsettled.settle(message, is_done=True)

    def nack(self, message: MessageProxy) -> None:
        self.unsettled.settle(message, is_done=False)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        redis_ids = [message.options[MESSAGE_ID] for message in messages]
        _call_connected(lambda: self._put_back(redis_ids))

    def close(self) -> None:
        """Sends the last outcomes."""
        try:
            if self._request is not None and self._connection.is_open:
                request, self._request = self._request, None
                with contextlib.suppress(ConnectionClosed):  # the rest is sent again
                    _call_connected(lambda: self._receive_finals(request))
                self._connection.close()  # without the reply to the fetch: what it has taken is returned, see _begin
            if self.unsettled.outcomes:
                _call_connected(lambda: self._exchange(0))
        finally:
            self._connection.close()

    def __next__(self) -> MessageProxy | None:
        if not self.message_cache:
            room = 0 if self.broker.is_draining else self.prefetch - self.outstanding_message_count
            if self._request is None and room <= 0 and not self.unsettled.outcomes:
                self._wait_for_room()
                return None
            if not self._connection.is_open:  # it was lost as a request was sent ahead
                raise ConnectionClosed("The connection to Redis is lost.")
            self.message_cache = _call_connected(lambda: self._exchange(room))
        message, inline = self._take(), self.broker.work_inline
        # Messages that arrive while the process ends go through Dramatiq, which returns those that no thread takes.
        if message is None or inline is None or self.broker.is_draining or not inline.takes(message):
            return message
        self.unsettled.work(inline.process, message, self._send_ahead)
        return None

    def _take(self) -> MessageProxy | None:
        while self.message_cache:
            text, record = self.message_cache.pop(0)
            if text is not None:  # its text was deleted, but its name was still in the queue
                message = Delivery(text)
                redis_id = self.unsettled.messages[message.message_id] = message.options[MESSAGE_ID]
                if record:
                    self.unsettled.claimed[redis_id] = as_map(record)
                return message
        return None

    def _exchange(self, room: int) -> list[tuple[str | None, list[str]]]:
        """Sends the pending outcomes, and fetches up to `room` texts of messages, with the record claimed for each, or
        []. If that was sent ahead, this receives the replies."""
        request = self._request or self._send(room)
        self._request = None
        replies = self._receive_finals(request)
        has_settled = bool(request.outcomes or request.finals)
        request.finals.clear()  # and what the work has left with them, before the next message comes
        for _ in range(request.fetch_length):
            replies.append(self._connection.receive())
        errors = [reply for reply in replies if isinstance(reply, redis.RedisError)]
        if errors:
            self._handle(errors)
        else:
            for outcome in request.outcomes:
                self.unsettled.forget(outcome)
        if replies[-1] in errors:
            return []
        left, texts, records = replies[-1]
        self._is_idle = self._is_empty and not texts and not has_settled and self.outstanding_message_count == 0
        self._is_empty = left == 0
        return list(zip(texts, records or [[]] * len(texts), strict=True))

    def _handle(self, errors: list[redis.RedisError]) -> None:
        if not any(isinstance(error, redis.exceptions.NoScriptError) for error in errors):
            raise errors[0]
        self._heartbeat_at = -math.inf  # the server was restarted
        self._connection.ask([self.broker.exchange.load])
        self._known = {self.broker.exchange.sha}

    def _send_ahead(self, final: FinalCall) -> None:
        """Sends the last call of the last message in hand, and what follows. If the replies do not come, the call is
        repeated."""
        if self.message_cache or self.broker.is_draining:
            return
        room = self.prefetch - self.unsettled.unfinished + 1  # this message is about to be settled
        try:
            self._request = self._send(room, final)
        except redis.RedisError:
            return  # __next__ reports it

    def _send(self, room: int, *last: FinalCall) -> SentRequest:
        outcomes, finals = self.unsettled.pending()
        finals += last
        commands: list[Command] = []
        scripts = []
        for final in finals:
            script = final.call.script
            if script.sha not in self._known and script not in scripts:
                scripts.append(script)
                commands.insert(0, script.load)
            commands.append(final.call.with_acknowledgement(*self._own_keys, final.redis_id))
        self._is_idle = self._is_idle and not outcomes and not finals
        self._connection.allow(MAX_BLOCK_S * (IDLE_BLOCKS - 1) if self._is_idle else 0.0)
        fetch = self._build_fetch(outcomes, room)
        self._connection.send(commands + fetch)
        return SentRequest(scripts, finals, outcomes, len(fetch))

    def _receive_finals(self, request: SentRequest) -> list[Any]:
        """Receives the replies to all but the fetch."""
        replies = [self._connection.receive() for _ in request.scripts]
        self._known.update(script.sha for script in request.scripts)
        return replies + [self._receive_final(final) for final in request.finals]

    def _receive_final(self, final: FinalCall) -> Any:
        reply = self._connection.receive()
        if not isinstance(reply, redis.RedisError):
            self.unsettled.settled(final)
            try:
                final.replied(reply)
            except Exception:  # replies are still to come on this line
                self.logger.critical("Unexpected failure after the end of a message's work.", exc_info=True)
        return reply

    def _build_fetch(self, outcomes: list[Outcome], room: int) -> list[Command]:
        if not self._is_empty or room <= 0:
            return [self._settle_and_fetch(outcomes, room)]
        wait_s = MAX_BLOCK_S * IDLE_BLOCKS if self._is_idle else MAX_BLOCK_S
        if self._is_of_delayed and self.outstanding_message_count > 0:  # they become due while none arrive
            wait_s = min(self._look_s, MAX_BLOCK_S)
        wait = ("BLMOVE", self._list, self._list, "LEFT", "LEFT", wait_s)
        commands = [self._settle_and_fetch(outcomes, 0)] if outcomes else []
        return [*commands, wait, self._settle_and_fetch([], room)]

    def _settle_and_fetch(self, outcomes: list[Outcome], room: int) -> Command:
        done: list[str] = []
        dead: list[str] = []
        for outcome in outcomes:
            (done if outcome.is_done else dead).append(outcome.redis_id)
        # Not for a message that has to wait for a worker's thread: a claim means that the work starts.
        claimer = self.broker.claimers.get(self.queue_name) if room > 0 and self.broker.work_inline else None
        claim = claimer.claim if claimer else ()
        fetch = (self._heartbeat(is_due=bool(dead)), self.broker.broker_id, self.queue_name, min(room, MAX_FETCH))
        args = (*fetch, len(claim), len(done), *claim, *done, *dead)
        return self.broker.exchange.command([self.broker.namespace], args)

    def _heartbeat(self, *, is_due: bool) -> int | str:
        """The time, if a heartbeat is due: a thousand messages a second need one, not a thousand."""
        at = time.monotonic()
        if not is_due and at - self._heartbeat_at < HEARTBEAT_S:
            return ""
        self._heartbeat_at = at
        return current_millis()

    def _wait_for_room(self) -> None:
        self.unsettled.may_have_room.wait(DRAIN_S if self.broker.is_draining else self.timeout / 1000)
        self.unsettled.may_have_room.clear()

    def _begin(self) -> None:
        _, connection_id = self._connection.ask([self.broker.exchange.load, ("CLIENT", "ID")])
        self.broker.waits(self.queue_name, connection_id)
        unseen = self.broker.fetched(self.broker.broker_id, self.queue_name) - set(self.unsettled.messages.values())
        if unseen:
            self.logger.warning("Putting back %d message(s) whose fetch was cut off.", len(unseen))
            self._put_back(unseen)

    def _put_back(self, redis_ids: Collection[str]) -> None:
        """Returns the messages, and restores their records."""
        claimer = self.broker.claimers.get(self.queue_name)
        if claimer:
            for redis_id in redis_ids:
                claimer.give_back(redis_id)
        if redis_ids:
            self.broker.do_requeue(self.queue_name, *redis_ids)


def _call_connected(call: Callable[[], T]) -> T:
    """Reports a lost or timed-out connection as the one error that Dramatiq recovers from by itself.

    Dramatiq treats a timeout as an unknown error.
    """
    try:
        return call()
    except (redis.ConnectionError, redis.TimeoutError) as error:
        raise ConnectionClosed(error) from None
