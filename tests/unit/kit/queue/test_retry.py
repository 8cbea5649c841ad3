"""Redis did what it was asked, and the answer never arrived."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import redis
from dramatiq.errors import ConnectionClosed
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.conversion import model
from app.conversion.model import JobRecord, Stage
from app.conversion.options import Options
from app.conversion.store import JobStore
from app.kit.objects import StoreUnavailable
from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.broker import NAMESPACE, connect
from app.kit.queue.retry import until_answered, until_next_pulse
from tests.harness.until import PATIENCE_S, until
from tests.harness.valkey import TRY_S, Valkey, set_patience

NOW = "2026-11-20T00:00:00.000Z"


class AfterTwo(NoBackoff):
    """Mends what is wrong after the second failure."""

    def __init__(self, mend: Callable[[], None]) -> None:
        self.mend = mend

    def compute(self, failures: int) -> float:
        if failures == 2:
            self.mend()
        return 0.0


@pytest.fixture
def stubborn(own_valkey: Valkey) -> Iterator[redis.Redis]:
    """A client that repeats what has timed out."""
    client = redis.Redis(port=own_valkey.port, socket_timeout=PATIENCE_S, retry=Retry(NoBackoff(), 50))
    yield client
    client.close()


def test_a_message_whose_fetch_timed_out_is_not_lost_though_the_client_repeats_commands(
    own_valkey: Valkey, stubborn: redis.Redis
) -> None:
    broker = BlockingBroker(client=stubborn, namespace=NAMESPACE, prefetch={"heavy": 1})
    broker.declare_queue("heavy")
    broker.send("heavy", "anything", message_id="a")
    consumer = broker.consume("heavy", timeout=10)
    broker.do_qsize("heavy")  # the scripts are known now
    with own_valkey.stalled(), pytest.raises(ConnectionClosed):
        set_patience(consumer._connection, TRY_S)
        next(consumer)
    # As Dramatiq does after a lost connection:
    message = until(lambda: next(broker.consume("heavy", timeout=10)), lambda message: message is not None)
    assert message.options["redis_message_id"] == "a"


def test_a_claim_whose_answer_was_lost_stands_when_it_is_repeated(own_valkey: Valkey, stubborn: redis.Redis) -> None:
    store = JobStore(stubborn, record_ttl_s=60, live_log_bytes=1000)
    store.create(_submitted(), score=1.0)
    assert not store.apply("job-2", model.cancelled(Stage.ONNX, now=NOW))  # the script is known now
    claim = model.claimed(Stage.ONNX, worker="here/onnx/0", token="one")
    lines = store.records._lines
    [line] = lines._open
    with ExitStack() as stall:

        def mend() -> None:
            stall.close()
            set_patience(line, PATIENCE_S)

        stall.enter_context(own_valkey.stalled())
        set_patience(line, TRY_S)
        lines._retry = Retry(AfterTwo(mend), 2)
        record = store.claim("job-1", claim)
    assert record is not None and record.claim == claim.fields["claim"]


def test_another_attempt_of_a_worker_of_the_same_name_is_refused(own_valkey: Valkey, stubborn: redis.Redis) -> None:
    store = JobStore(stubborn, record_ttl_s=60, live_log_bytes=1000)
    store.create(_submitted(), score=1.0)
    first, second = (model.claimed(Stage.ONNX, worker="here/onnx/0", token=token) for token in ("1", "2"))
    assert store.claim("job-1", first)
    assert store.claim("job-1", second) is None


def test_a_time_out_is_not_repeated_and_a_lost_connection_is(
    own_valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.kit.queue.broker.SOCKET_TIMEOUT_S", PATIENCE_S)
    client = connect(own_valkey.url(0))
    client.incr("calls")
    own_valkey.client.client_kill_filter(_type="normal", skipme=True)
    assert client.incr("calls") == 2
    connections = _connections(own_valkey)
    [connection] = client.connection_pool._available_connections
    with own_valkey.stalled(), pytest.raises(redis.TimeoutError):
        connection._sock.settimeout(TRY_S)
        client.incr("calls")
    assert _connections(own_valkey) == connections  # another try would have needed another
    client.close()


def test_what_a_job_hangs_on_is_repeated_until_redis_answers(
    own_valkey: Valkey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("app.kit.queue.retry.AGAIN_S", 0.05)
    client = redis.Redis(port=own_valkey.port, retry=None)
    own_valkey.kill()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(until_answered, client.ping, "ping")
        until(lambda: "Cannot ping yet" in caplog.text)
        own_valkey.start()
        assert answer.result()
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
