"""Redis did what it was asked, and the answer never arrived."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from dramatiq.errors import ConnectionClosed
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from app.conversion import model
from app.conversion.model import JobRecord, Stage
from app.conversion.options import Options
from app.conversion.store import JobStore
from app.kit.objects import StoreUnavailable
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.broker import NAMESPACE, connect
from app.kit.queue.retry import until_answered, until_next_pulse
from tests.harness.valkey import Valkey

TRY_S = 0.3
TWO_TRIES_S = 0.5
NOW = "2026-11-20T00:00:00.000Z"


@pytest.fixture
def stubborn(own_valkey: Valkey) -> Iterator[redis.Redis]:
    """A client that repeats what has timed out."""
    client = redis.Redis(port=own_valkey.port, socket_timeout=TRY_S, retry=Retry(ConstantBackoff(0.01), 50))
    yield client
    client.close()


@contextlib.contextmanager
def stalled(valkey: Valkey) -> Iterator[None]:
    valkey.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        valkey.process.send_signal(signal.SIGCONT)


def in_thread(call: Any) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(call())
        except (ConnectionClosed, redis.RedisError) as error:
            answers.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, answers


def test_a_message_whose_fetch_timed_out_is_not_lost_though_the_client_repeats_commands(
    own_valkey: Valkey, stubborn: redis.Redis
) -> None:
    broker = BlockingBroker(client=stubborn, namespace=NAMESPACE, prefetch={"heavy": 1})
    broker.declare_queue("heavy")
    broker.send("heavy", "anything", message_id="a")
    consumer = broker.consume("heavy", timeout=10)
    broker.do_qsize("heavy")  # the scripts are known now
    with stalled(own_valkey):
        thread, answers = in_thread(lambda: next(consumer))
        thread.join()
    assert isinstance(answers[0], ConnectionClosed)
    deadline = time.monotonic() + 120
    while (message := next(broker.consume("heavy", timeout=10))) is None:  # as Dramatiq does after a lost connection
        assert time.monotonic() < deadline
    assert message.options["redis_message_id"] == "a"


def test_a_claim_whose_answer_was_lost_stands_when_it_is_repeated(own_valkey: Valkey, stubborn: redis.Redis) -> None:
    store = JobStore(stubborn, record_ttl_s=60, live_log_bytes=1000)
    store.create(_submitted(), score=1.0)
    assert not store.apply("job-2", model.cancelled(Stage.ONNX, now=NOW))  # the script is known now
    claim = model.claimed(Stage.ONNX, worker="here/onnx/0", token="one")
    with stalled(own_valkey):
        thread, answers = in_thread(lambda: store.claim("job-1", claim))
        time.sleep(TWO_TRIES_S)
    thread.join()
    assert isinstance(answers[0], JobRecord)
    assert answers[0].claim == claim.fields["claim"]


def test_another_attempt_of_a_worker_of_the_same_name_is_refused(own_valkey: Valkey, stubborn: redis.Redis) -> None:
    store = JobStore(stubborn, record_ttl_s=60, live_log_bytes=1000)
    store.create(_submitted(), score=1.0)
    first, second = (model.claimed(Stage.ONNX, worker="here/onnx/0", token=token) for token in ("1", "2"))
    assert store.claim("job-1", first)
    assert store.claim("job-1", second) is None


def test_a_time_out_is_not_repeated_and_a_lost_connection_is(
    own_valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.kit.queue.broker.SOCKET_TIMEOUT_S", TRY_S)
    client = connect(own_valkey.url(0))
    client.incr("calls")
    own_valkey.client.client_kill_filter(_type="normal", skipme=True)
    assert client.incr("calls") == 2
    connections = _connections(own_valkey)
    with stalled(own_valkey), pytest.raises(redis.TimeoutError):
        client.incr("calls")
    assert _connections(own_valkey) == connections  # another try would have needed another
    client.close()


def test_what_a_job_hangs_on_is_repeated_until_redis_answers(
    own_valkey: Valkey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.kit.queue.retry.AGAIN_S", 0.05)
    client = redis.Redis(port=own_valkey.port, retry=None)
    own_valkey.kill()
    thread, answers = in_thread(lambda: until_answered(client.ping, "ping"))
    while "Cannot ping yet" not in caplog.text:
        time.sleep(0.01)
    own_valkey.start()
    thread.join()
    assert answers == [True]
    client.close()


def _connections(valkey: Valkey) -> int:
    return int(valkey.client.info("stats")["total_connections_received"])


def _submitted() -> JobRecord:
    return model.submitted("job-1", now=NOW, owner="ann", name="", tags=(), options=Options(), inputs={}, intake={})


@pytest.mark.parametrize("problem", [redis.TimeoutError("stalled"), StoreUnavailable("away")])
def test_what_happens_by_the_clock_waits_for_its_next_pulse(
    problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with until_next_pulse("The sweep"):
        raise problem
    assert "The sweep is left to the next pulse" in caplog.text


def test_a_fault_of_ours_is_not_left_to_a_pulse() -> None:
    with pytest.raises(ZeroDivisionError), until_next_pulse("The sweep"):
        raise ZeroDivisionError
