"""What the work on a message ends with travels with the answer to it, and is neither lost nor repeated without need."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq import Worker
from dramatiq.errors import ConnectionClosed

from app.kit.observability import logs
from app.kit.queue import blocking_consumer
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.broker import make_broker
from app.kit.queue.inline_worker import Inline
from app.kit.redis.connections import Script, ScriptCall
from app.kit.redis.record_scripts import ACKNOWLEDGE
from tests.harness.until import until
from tests.harness.valkey import TRY_S, Valkey, set_patience
from tests.unit.kit.queue.test_blocking_broker import patient_broker, sent_by_lines

pytestmark = pytest.mark.slow
COUNT = (
    ACKNOWLEDGE
    + """
local count = redis.call('INCR', KEYS[1])
acknowledge(2)
return count
"""
)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of consumers that wait for messages which never come."""
    monkeypatch.setattr(blocking_consumer, "MAX_BLOCK_S", 1.0)


@pytest.fixture
def broker(valkey: Valkey) -> Iterator[BlockingBroker]:
    made = make_broker(valkey.url(1))
    yield made
    made.close()


class Counter:
    """An actor `count` of the queue `heavy` that ends with a call, and a consumer that has it work in its thread."""

    def __init__(self, broker: BlockingBroker, text: str = COUNT) -> None:
        self.broker = broker
        self.script = Script(broker.connections, text)
        self.replies: list[Any] = []
        dramatiq.Actor(
            self._count, broker=broker, actor_name="count", queue_name="heavy", priority=0, options={"max_retries": 0}
        )
        worker = Worker(broker, queues={"heavy"}, worker_threads=1)
        broker.work_inline = Inline(broker, worker)
        self.consumer = self._consume()
        worker.consumers["heavy"] = self

    def _consume(self) -> Any:
        return self.broker.consume("heavy", timeout=100)

    def post_process_message(self, message: Any) -> None:
        (self.consumer.nack if message.failed else self.consumer.ack)(message)

    def _count(self, key: str) -> None:
        with logs.context(job_id=key):
            self.broker.finish("heavy", ScriptCall(self.script, [key], []), self._note)

    def _note(self, reply: Any) -> None:
        self.replies.append((reply, logs._context.get()["job_id"]))

    def work(self, *keys: str) -> None:
        """One after the other; what the last ends with is still to be sent."""
        for key in keys:
            self.broker.send("heavy", "count", message_id=key, key=key)
        for _ in keys:
            while not self.broker.unsettled("heavy").outcomes or self.consumer.message_cache:
                assert next(self.consumer) is None


def test_the_last_call_is_sent_at_once_with_the_wait_and_the_next_fetch_and_acknowledges_the_message(
    broker: BlockingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(broker)
    counter.work("a")
    assert next(counter.consumer) is None, "from now on the connection has the script"
    sent = sent_by_lines(monkeypatch)
    counter.work("b")
    assert broker.client.get("b") == b"1"
    assert not broker.holds("heavy", "b")
    assert broker.fetched(broker.broker_id, "heavy") == set()
    assert counter.replies == [(1, "a")], "it is received after the work"
    assert [command[0] for command in sent[-1]] == ["EVALSHA", "BLMOVE", "EVALSHA"]
    assert next(counter.consumer) is None
    assert counter.replies == [(1, "a"), (1, "b")], "in the context of its work"


def test_on_a_busy_queue_the_last_call_the_acknowledgement_and_the_next_fetch_are_one_round_trip(
    broker: BlockingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(broker)
    counter.work("a")
    assert next(counter.consumer) is None
    for key in "bcd":
        broker.send("heavy", "count", message_id=key, key=key)
    counter.consumer.prefetch = 1
    until(lambda: next(counter.consumer) is None and broker.unsettled("heavy").outcomes)
    sent = sent_by_lines(monkeypatch)
    assert next(counter.consumer) is None
    assert [[command[0] for command in commands] for commands in sent] == [["EVALSHA", "EVALSHA"]]
    assert counter.replies == [(1, "a"), (1, "b")]


def test_a_call_that_was_sent_at_once_over_a_lost_connection_is_repeated(broker: BlockingBroker) -> None:
    counter = Counter(broker)
    counter.work("a")
    assert next(counter.consumer) is None

    def lose_the_connection_and_count(key: str) -> None:
        broker.client.client_kill_filter(_id=str(broker._waiting["heavy"]), skipme=False)
        counter._count(key)

    broker.actors["count"].fn = lose_the_connection_and_count
    counter.work("b")
    with pytest.raises(ConnectionClosed):
        next(counter.consumer)
    assert counter.replies == [(1, "a")]
    counter.consumer = counter._consume()
    assert next(counter.consumer) is None
    assert counter.replies == [(1, "a"), (1, "b")]
    assert not broker.holds("heavy", "b")


def test_who_ends_the_work_hears_the_reply_before_the_next_message_comes(broker: BlockingBroker) -> None:
    counter = Counter(broker)
    counter.work("a")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(next, counter.consumer)
        until(lambda: broker.client.info("clients")["blocked_clients"])
        until(lambda: counter.replies == [(1, "a")])
        broker.drain()
        assert waiting.result() is None


def test_the_calls_of_messages_that_were_fetched_together_are_sent_together(
    broker: BlockingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(broker)
    for key in "abc":
        broker.send("heavy", "count", message_id=key, key=key)
    counter.consumer.prefetch = 3
    assert next(counter.consumer) is None
    sent = sent_by_lines(monkeypatch)
    for _ in "bc":
        assert next(counter.consumer) is None
    assert len(sent) == 1, "with the last one's work"
    assert next(counter.consumer) is None
    assert len(sent) == 1
    assert counter.replies == [(1, "a"), (1, "b"), (1, "c")]


def test_without_a_message_in_hand_the_call_is_made_at_once(broker: BlockingBroker) -> None:
    counter = Counter(broker)
    counter._count("a")
    assert counter.replies == [(1, "a")]


def test_a_thread_that_works_on_no_message_leaves_nothing_to_one_that_does(broker: BlockingBroker) -> None:
    counter = Counter(broker)
    hold, begun = threading.Event(), threading.Event()
    counter.broker.actors["count"].fn = lambda key: (begun.set(), hold.wait(120), None)[2]
    broker.send("heavy", "count", message_id="a", key="a")
    with ThreadPoolExecutor() as pool:
        working = pool.submit(next, counter.consumer)
        begun.wait(120)
        counter._count("b")
        assert counter.replies == [(1, "b")]
        hold.set()
        working.result()


def test_a_call_outlives_a_stalled_server_and_the_consumer_and_its_process_is_busy_until_then(
    own_valkey: Valkey,
) -> None:
    broker = patient_broker(own_valkey)
    counter = Counter(broker)
    with ExitStack() as stall:

        def stall_the_server_and_count(key: str) -> None:
            stall.enter_context(own_valkey.stalled())
            set_patience(counter.consumer._connection, TRY_S)
            counter._count(key)

        broker.actors["count"].fn = stall_the_server_and_count
        counter.work("a")
        with pytest.raises(ConnectionClosed):
            next(counter.consumer)
        assert broker.is_busy
    counter.consumer = counter._consume()
    counter.consumer.close()
    assert counter.replies[0][1] == "a"
    assert broker.client.get("a") in (b"1", b"2"), "the server may have heard it the first time"
    assert not broker.is_busy
    assert not broker.holds("heavy", "a")
    broker.close()


def test_a_message_that_a_repeated_call_sent_twice_leaves_nothing_behind(broker: BlockingBroker) -> None:
    call = broker.post_call(broker.prepare("light", "anything", message_id="twice"))
    for _ in range(2):
        call()
    consumer = broker.consume("light", timeout=100)
    consumer.ack(next(consumer))
    assert next(consumer) is None
    assert broker.fetched(broker.broker_id, "light") == set()
    assert not broker.is_busy


def test_a_consumer_that_is_closed_makes_the_last_call(broker: BlockingBroker) -> None:
    counter = Counter(broker)
    counter.work("a")
    counter.consumer.close()
    assert counter.replies == [(1, "a")]


def test_a_server_that_has_forgotten_the_script_is_told_it_again(broker: BlockingBroker) -> None:
    counter = Counter(broker)
    counter.work("a")
    assert next(counter.consumer) is None
    broker.client.script_flush()
    broker.client.script_load(broker.exchange.text)
    counter.work("b")
    until(lambda: next(counter.consumer) is None and counter.replies == [(1, "a"), (1, "b")])
    assert not broker.holds("heavy", "b")


def test_a_call_that_the_server_refuses_is_made_again_and_no_other(broker: BlockingBroker) -> None:
    """As one that is out of memory does."""
    counter = Counter(broker)
    broker.client.lpush("b", "in the way")
    for key in "ab":
        broker.send("heavy", "count", message_id=key, key=key)
    counter.consumer.prefetch = 2
    for _ in "ab":
        assert next(counter.consumer) is None
    with pytest.raises(redis.ResponseError):
        next(counter.consumer)
    assert counter.replies == [(1, "a")]
    broker.client.delete("b")
    counter.consumer = counter._consume()
    assert next(counter.consumer) is None
    assert counter.replies == [(1, "a"), (1, "b")]
    assert not broker.is_busy


def test_a_reply_whose_hearer_fails_leaves_the_line_in_order(broker: BlockingBroker) -> None:
    counter = Counter(broker)

    def fail(reply: Any) -> None:
        raise ValueError(reply)

    note: Callable[[Any], None] = counter._note
    counter._note = fail  # type: ignore[method-assign]
    counter.work("a")
    assert next(counter.consumer) is None
    counter._note = note  # type: ignore[method-assign]
    counter.work("b")
    assert next(counter.consumer) is None
    assert counter.replies == [(1, "b")]


def test_an_error_after_the_last_call_does_not_undo_the_end_of_the_work(broker: BlockingBroker) -> None:
    counter = Counter(broker)

    def end_and_fail(key: str) -> None:
        counter._count(key)
        raise ValueError(key)

    broker.actors["count"].fn = end_and_fail
    counter.work("a")
    assert next(counter.consumer) is None
    assert counter.replies == [(1, "a")]
    assert not broker.is_busy
    assert not broker.client.exists("queue:heavy.XQ")
