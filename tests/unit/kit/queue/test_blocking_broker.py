from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import dramatiq
import pytest
import redis
from dramatiq import Worker
from dramatiq.brokers.redis import RedisBroker
from dramatiq.errors import ConnectionClosed
from dramatiq.worker import ConsumerThread

from app.kit.queue import blocking_consumer
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.broker import NAMESPACE, make_broker
from app.kit.queue.inline_worker import InlineWork
from app.kit.queue.messages import Queue
from app.kit.queue.unsettled import Outcome
from app.kit.redis.connections import TIMEVAL, Command, RedisConnection
from tests.harness.until import PATIENCE_S, until
from tests.harness.valkey import TRY_S, Valkey, set_patience


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of consumers that wait for messages which never come."""
    monkeypatch.setattr(blocking_consumer, "MAX_BLOCK_S", 1.0)


def patient_broker(valkey: Valkey) -> BlockingBroker:
    client = redis.Redis(port=valkey.port, socket_timeout=PATIENCE_S, retry=None)
    return BlockingBroker(client=client, namespace=NAMESPACE)


def patience_of(consumer: Any) -> float:
    """For how long the kernel waits for the next reply."""
    kept = consumer._connection._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIMEVAL.size)
    whole_s, rest_us = TIMEVAL.unpack(kept)
    return float(whole_s + rest_us / 1e6)


@pytest.fixture
def broker(valkey: Valkey) -> Iterator[BlockingBroker]:
    made = make_broker(valkey.url(1), prefetch={"heavy": 1})
    made.declare_queue("heavy")
    made.declare_queue("light")
    yield made
    made.close()


def test_an_idle_consumer_sends_no_command_while_it_waits(broker: BlockingBroker) -> None:
    consumer = broker.consume("heavy", timeout=300)
    next(consumer)  # the connections are open now
    before = broker.client.info("stats")["total_commands_processed"]
    assert next(consumer) is None
    after = broker.client.info("stats")["total_commands_processed"]
    assert after - before <= 6  # one script and what it calls, one blocking command, and INFO itself


def test_a_message_comes_as_it_was_sent(broker: BlockingBroker) -> None:
    sent = broker.enqueue(dramatiq.Message("light", "work", (1,), {"size": float("inf")}, {"redis_message_id": "a"}))
    message = next(broker.consume("light", timeout=100))
    assert message is not None
    assert (message, message.args, message.asdict()) == (sent, (1,), sent.asdict())


def test_a_message_wakes_every_waiting_consumer_and_one_gets_it(broker: BlockingBroker) -> None:
    got: list[object] = []
    consumers = [broker.consume("heavy", timeout=2000) for _ in range(3)]

    def read(consumer: object) -> None:
        got.append(next(consumer))  # woken: None
        got.append(next(consumer))

    threads = [threading.Thread(target=read, args=(c,)) for c in consumers]
    for thread in threads:
        thread.start()
    until(lambda: broker.client.info("clients")["blocked_clients"] == 3)
    broker.send("heavy", "anything", message_id="one")
    for thread in threads:
        thread.join()
    assert len([m for m in got if m is not None]) == 1


def test_a_heartbeat_comes_at_once_and_then_once_a_second(
    broker: BlockingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = [100.0]
    monkeypatch.setattr(blocking_consumer, "time", SimpleNamespace(monotonic=lambda: at[0]))
    broker.send("heavy", "anything")  # nothing has to be waited for
    consumer = broker.consume("heavy", timeout=10)

    def beats() -> bool:
        broker.client.delete(f"{NAMESPACE}:__heartbeats__")
        consumer.unsettled.outcomes.append(Outcome(True, "none", "none", None))  # so that there is something to send
        next(consumer)
        return bool(broker.client.zscore(f"{NAMESPACE}:__heartbeats__", broker.broker_id))

    seen = [beats(), beats()]
    at[0] += 1.0
    seen += [beats(), beats()]
    broker.client.script_flush()  # as after a restart: the first request fails, the second beats again
    assert [*seen, beats(), beats()] == [True, False, True, False, False, True]


def test_waiting_does_not_change_the_order_of_a_queue(broker: BlockingBroker) -> None:
    for name in "abc":
        broker.send("heavy", "anything", message_id=name)
    assert next(broker.consume("heavy", timeout=100)).options["redis_message_id"] == "a"
    assert broker.client.lrange(broker.list_key("heavy"), 0, -1) == [b"b", b"c"]


def test_a_heavy_queue_is_fetched_one_at_a_time_whatever_prefetch_is_asked_for(broker: BlockingBroker) -> None:
    for name in "ab":
        broker.send("heavy", "anything", message_id=name)
    consumer = broker.consume("heavy", prefetch=8, timeout=10)
    first = next(consumer)
    assert first.options["redis_message_id"] == "a"
    assert next(consumer) is None
    assert broker.waiting("heavy") == 1
    consumer.ack(first)
    until(lambda: next(consumer) is not None)


def test_a_reconnect_does_not_make_a_busy_worker_fetch_a_second_message(broker: BlockingBroker) -> None:
    for name in "ab":
        broker.send("heavy", "anything", message_id=name)
    first = next(broker.consume("heavy", timeout=10))
    again = broker.consume("heavy", timeout=10)  # what Dramatiq does after a lost connection
    assert next(again) is None
    assert broker.waiting("heavy") == 1
    again.ack(first)
    assert next(again).options["redis_message_id"] == "b"


def test_a_message_whose_fetch_was_cut_off_comes_back(broker: BlockingBroker) -> None:
    broker.send("heavy", "anything", message_id="a")
    broker.do_fetch("heavy", 1)  # the server handed it out, but the answer never arrived
    assert broker.waiting("heavy") == 0
    assert next(broker.consume("heavy", timeout=10)).options["redis_message_id"] == "a"


def test_a_light_queue_keeps_its_prefetch(broker: BlockingBroker) -> None:
    for name in "abc":
        broker.send("light", "anything", message_id=name)
    next(broker.consume("light", prefetch=3, timeout=10))
    assert broker.waiting("light") == 0


def test_an_answer_outlives_a_stalled_server_and_the_consumer(own_valkey: Valkey) -> None:
    broker = patient_broker(own_valkey)
    broker.declare_queue("heavy")
    broker.send("heavy", "anything", message_id="a")
    consumer = broker.consume("heavy", timeout=10)
    consumer.ack(next(consumer))
    with own_valkey.stalled():
        set_patience(consumer._connection, TRY_S)
        with pytest.raises(ConnectionClosed):
            next(consumer)
        with pytest.raises(ConnectionClosed):
            consumer.close()
    assert next(broker.consume("heavy", timeout=10)) is None
    assert not broker.holds("heavy", "a")
    assert broker.unsettled("heavy").unfinished == 0
    broker.close()


def test_a_stalled_server_counts_as_a_lost_connection(own_valkey: Valkey) -> None:
    broker = patient_broker(own_valkey)
    consumer = broker.consume("heavy", timeout=10)
    with own_valkey.stalled():
        set_patience(consumer._connection, TRY_S)
        with pytest.raises(ConnectionClosed):
            next(consumer)
    broker.close()


def test_a_consumer_without_messages_waits_longer_than_its_socket_and_is_woken_by_one(
    own_valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_consumer, "MAX_BLOCK_S", 0.1)
    monkeypatch.setattr(blocking_consumer, "IDLE_BLOCKS", 20 * PATIENCE_S)
    broker = patient_broker(own_valkey)
    consumer = broker.consume("heavy", timeout=10)
    assert next(consumer) is None  # a look
    for message_id in "ab":
        assert next(consumer) is None  # a first wait
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(next, consumer)
            until(lambda: broker.client.info("clients")["blocked_clients"])
            assert patience_of(consumer) > 2 * PATIENCE_S, "longer than the command blocks"
            broker.send("heavy", "anything", message_id=message_id)
            message = waiting.result()
        consumer.ack(message)
        assert message.options["redis_message_id"] == message_id
        assert next(consumer) is None  # its end is sent, and the wait after it is a short one
        assert patience_of(consumer) == PATIENCE_S
    consumer.close()
    broker.close()


def test_a_consumer_goes_on_with_a_server_that_has_forgotten_its_scripts(broker: BlockingBroker) -> None:
    consumer = broker.consume("heavy", timeout=10)
    broker.send("heavy", "anything", message_id="a")
    first = next(consumer)
    consumer.ack(first)
    broker.client.script_flush()
    broker.send("heavy", "anything", message_id="b")
    until(lambda: next(consumer) is not None)
    assert not broker.holds("heavy", "a")


def test_an_answer_travels_with_the_next_fetch(broker: BlockingBroker) -> None:
    for name in "ab":
        broker.send("heavy", "anything", message_id=name)
    consumer = broker.consume("heavy", timeout=10)
    consumer.ack(next(consumer))
    broker.client.config_resetstat()
    assert next(consumer).options["redis_message_id"] == "b"
    assert broker.client.info("commandstats")["cmdstat_evalsha"]["calls"] == 1
    assert not broker.holds("heavy", "a")


def test_on_a_quiet_queue_an_answer_and_the_wait_for_the_next_message_are_one_round_trip(
    broker: BlockingBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.send("heavy", "anything", message_id="a")
    consumer = broker.consume("heavy", timeout=100)
    consumer.ack(next(consumer))
    sent = sent_by_lines(monkeypatch)
    assert next(consumer) is None
    assert [[command[0] for command in commands] for commands in sent] == [["EVALSHA", "BLMOVE", "EVALSHA"]]


def sent_by_lines(monkeypatch: pytest.MonkeyPatch) -> list[list[Command]]:
    """What is sent from now on, a list for each time."""
    sent: list[list[Command]] = []
    send = RedisConnection.send
    monkeypatch.setattr(RedisConnection, "send", lambda line, commands: sent.append(commands) or send(line, commands))
    return sent


def test_an_answer_is_heard_before_the_next_message_comes(broker: BlockingBroker) -> None:
    broker.send("heavy", "anything", message_id="a")
    consumer = broker.consume("heavy", timeout=2000)
    consumer.ack(next(consumer))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(next, consumer)
        until(lambda: broker.client.info("clients")["blocked_clients"])
        assert not broker.holds("heavy", "a")
        broker.send("heavy", "anything", message_id="b")
        assert waiting.result().options["redis_message_id"] == "b"
    assert broker.unsettled("heavy").unfinished == 1


def test_a_consumer_that_is_closed_says_its_last_answer(broker: BlockingBroker) -> None:
    broker.send("heavy", "anything", message_id="a")
    consumer = broker.consume("heavy", timeout=10)
    consumer.ack(next(consumer))
    consumer.close()
    assert not broker.holds("heavy", "a")


def test_a_draining_process_fetches_no_more_and_still_answers(broker: BlockingBroker) -> None:
    for name in "ab":
        broker.send("heavy", "anything", message_id=name)
    consumer = broker.consume("heavy", timeout=10)
    first = next(consumer)
    broker.drain()
    consumer.ack(first)
    assert next(consumer) is None
    assert next(consumer) is None
    assert (broker.holds("heavy", "a"), broker.waiting("heavy")) == (False, 1)


def test_a_position_counts_the_messages_ahead(broker: BlockingBroker) -> None:
    for name in "abc":
        broker.send("heavy", "anything", message_id=name)
    assert [broker.position("heavy", name) for name in "abcd"] == [0, 1, 2, None]


def test_a_message_taken_back_is_never_delivered(broker: BlockingBroker) -> None:
    for name in "ab":
        broker.send("heavy", "anything", message_id=name)
    assert broker.take_back("heavy", "a")
    assert not broker.holds("heavy", "a")
    assert next(broker.consume("heavy", timeout=10)).options["redis_message_id"] == "b"


def test_what_was_fetched_is_not_dropped_because_a_script_was_unknown_a_moment_before(broker: BlockingBroker) -> None:
    """Another worker tells a restarted server the script while this one waits: its answer fails, its fetch does not."""
    consumer = broker.consume("heavy", timeout=2000)
    broker.send("heavy", "anything", message_id="a")
    consumer.ack(next(consumer))
    broker.client.script_flush()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(next, consumer)
        until(lambda: broker.client.info("clients")["blocked_clients"])
        broker.client.script_load(broker.exchange.text)
        broker.send("heavy", "anything", message_id="b")
        message = waiting.result()
    assert message is not None
    assert message.options["redis_message_id"] == "b"
    consumer.close()
    assert not broker.holds("heavy", "a"), "the answer was said again"


def test_a_message_in_a_workers_hands_cannot_be_taken_back(broker: BlockingBroker) -> None:
    broker.send("heavy", "anything", message_id="a")
    next(broker.consume("heavy", timeout=10))
    assert not broker.take_back("heavy", "a")
    assert broker.holds("heavy", "a")


def test_what_a_dead_process_had_fetched_is_adopted(broker: BlockingBroker, valkey: Valkey) -> None:
    dead = make_broker(valkey.url(1))
    broker.send("heavy", "anything", message_id="a")
    dead.do_fetch("heavy", 1)
    dead.close()
    assert broker.requeue_from(dead.broker_id, "heavy") == 1
    assert next(broker.consume("heavy", timeout=10)).options["redis_message_id"] == "a"


def test_maintenance_puts_back_the_messages_of_silent_processes(broker: BlockingBroker, valkey: Valkey) -> None:
    dead = make_broker(valkey.url(1))
    broker.send("heavy", "anything", message_id="a")
    dead.do_fetch("heavy", 1)
    broker.client.zadd(f"{NAMESPACE}:__heartbeats__", {dead.broker_id: 0})
    dead.close()
    broker.maintain(["heavy"])
    assert broker.waiting("heavy") == 1


def test_stock_dramatiq_processes_share_the_queues(broker: BlockingBroker, valkey: Valkey) -> None:
    stock = RedisBroker(client=redis.Redis(port=valkey.port, db=1), namespace=NAMESPACE)
    got: list[tuple[str, str]] = []

    def declare(conn: dramatiq.Broker, who: str) -> dramatiq.Actor[..., None]:
        return dramatiq.Actor(
            lambda text: got.append((who, text)),
            broker=conn,
            actor_name="note",
            queue_name="heavy",
            priority=0,
            options={},
        )

    stock_note = declare(stock, "stock")
    declare(broker, "waiting")
    worker = Worker(broker, worker_threads=1, worker_timeout=100)
    worker.start()
    stock_note.send("from stock")
    until(lambda: got)
    worker.stop()
    broker.send("heavy", "note", text="from waiting")
    worker = Worker(stock, worker_threads=1, worker_timeout=100)
    worker.start()
    until(lambda: len(got) == 2)
    worker.stop()
    stock.client.close()
    assert got == [("waiting", "from stock"), ("stock", "from waiting")]


def test_a_message_is_worked_on_by_the_thread_that_fetched_it(broker: BlockingBroker) -> None:
    threads = noted_threads(broker)
    broker.add_middleware(InlineWork())
    worker = Worker(broker, queues={"heavy"}, worker_threads=1, worker_timeout=100)
    worker.start()
    broker.send("heavy", "note")
    until(lambda: threads)
    until(lambda: not broker.client.exists("queue:heavy.msgs"))
    assert type(threads[0]) is ConsumerThread
    worker.stop()


def test_messages_that_may_take_long_run_at_once(broker: BlockingBroker) -> None:
    both = threading.Barrier(2)  # each waits until the other runs, too
    done: list[int] = []
    broker.declare_queue(Queue.EXCHANGE)
    dramatiq.Actor(
        lambda: done.append(both.wait(PATIENCE_S)),
        broker=broker,
        actor_name="note",
        queue_name=Queue.EXCHANGE,
        priority=0,
        options={"max_retries": 0},
    )
    broker.add_middleware(InlineWork())
    worker = Worker(broker, queues={Queue.EXCHANGE}, worker_threads=2, worker_timeout=100)
    worker.start()
    for _ in range(2):
        broker.send(Queue.EXCHANGE, "note")
    until(lambda: len(done) == 2)
    worker.stop()


def test_a_message_that_a_fetch_still_brings_while_the_process_ends_is_handed_on_and_not_begun(
    broker: BlockingBroker,
) -> None:
    threads = noted_threads(broker)
    InlineWork().before_worker_boot(broker, Worker(broker, queues={"heavy"}, worker_threads=1))
    consumer = broker.consume("heavy", timeout=2000)
    assert next(consumer) is None
    message = brought_while_ending(broker, consumer, lambda: broker.send("heavy", "note", message_id="a"))
    assert threads == []
    consumer.requeue([message])
    assert broker.position("heavy", "a") == 0


def brought_while_ending(broker: BlockingBroker, consumer: Any, send: Callable[[], object]) -> Any:
    """The message that a fetch brings which was waiting when the process was told to end."""
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(next, consumer)
        until(lambda: broker.client.info("clients")["blocked_clients"])
        broker.is_draining = True  # as between the order to end and the wake-up that comes with it
        send()
        return waiting.result()


def test_the_order_to_end_ends_the_wait_for_messages(broker: BlockingBroker) -> None:
    consumer = broker.consume("heavy", timeout=2000)
    assert next(consumer) is None
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(next, consumer)
        until(lambda: broker.client.info("clients")["blocked_clients"])
        broker.drain()
        assert waiting.result() is None
        assert not broker.client.info("clients")["blocked_clients"]


def test_an_idle_worker_ends_with_the_order_to_end(broker: BlockingBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for messages and for delayed ones; neither wait goes on."""
    monkeypatch.setattr(blocking_consumer, "MAX_BLOCK_S", 3600.0)
    worker = Worker(broker, queues={"heavy"}, worker_threads=1)
    worker.start()
    until(lambda: broker.client.info("clients")["blocked_clients"] == 2)
    consumers = list(worker.consumers.values())
    broker.drain()
    worker.stop(timeout=4000)
    assert [consumer for consumer in consumers if consumer.is_alive()] == []


def test_of_an_actors_pulses_only_the_newest_waits_and_it_keeps_the_place_of_the_first(broker: BlockingBroker) -> None:
    pulses = {name: pulsed_actor(broker, name) for name in ("sweep", "expire")}
    broker.send("light", "anything", message_id="ahead")
    for minute in range(3):
        pulses["sweep"].send_with_options(scheduled_at=f"2030-01-01T00:0{minute}:00Z")
    broker.send("light", "anything", message_id="behind")
    sent = [pulses[name].send_with_options(scheduled_at="2030-01-01T00:03:00Z") for name in ("sweep", "expire")]
    waiting = [message_id.decode() for message_id in broker.client.lrange("queue:light", 0, -1)]
    assert waiting == ["ahead", sent[0].message_id, "behind", sent[1].message_id]
    assert broker.client.hlen("queue:light.msgs") == 4


def test_a_pulse_is_sent_beside_one_that_is_in_a_workers_hands(broker: BlockingBroker) -> None:
    pulse = pulsed_actor(broker, "sweep")
    first = pulse.send_with_options(scheduled_at="2030-01-01T00:00:00Z")
    consumer = broker.consume("light", timeout=100)
    taken = next(consumer)
    assert taken.message_id == first.message_id
    second = pulse.send_with_options(scheduled_at="2030-01-01T00:01:00Z")
    consumer.ack(taken)
    assert next(consumer).message_id == second.message_id


def pulsed_actor(broker: BlockingBroker, name: str) -> Any:
    return dramatiq.Actor(lambda: None, broker=broker, actor_name=name, queue_name="light", priority=0, options={})


def noted_threads(broker: BlockingBroker) -> list[threading.Thread]:
    """Those in which the actor `note` of the heavy queue ran."""
    threads: list[threading.Thread] = []
    dramatiq.Actor(
        lambda: threads.append(threading.current_thread()),
        broker=broker,
        actor_name="note",
        queue_name="heavy",
        priority=0,
        options={},
    )
    return threads
