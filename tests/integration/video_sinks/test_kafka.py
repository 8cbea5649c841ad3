"""Sinks of Kafka against Tansu, a broker that speaks its protocol, and librdkafka's mock cluster."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from confluent_kafka import Producer

from app.kit.network.addresses import read_networks
from app.kit.network.checked_post import NotSent
from app.kit.signatures.certificates import CertificateAuthority, new_request
from app.results.model.sink import Delivery, Sink, SinkContent, SinkKind
from app.results.senders import KafkaSender
from app.results.senders import kafka as kafka_sender
from app.video.model.job import VideoJob
from tests.harness.kafka import KafkaGate, Tansu, messages
from tests.harness.ports import free_port
from tests.harness.users import Within
from tests.harness.video.nodes import Env
from tests.harness.video.sinks import add, deliver, producer_in, sinks_of, state, take, take_large

HERE = read_networks("127.0.0.0/8")
SINK = Sink("5" * 32, "J", SinkKind.KAFKA, SinkContent.ROWS, "", "", "", 0)
CAMERAS = "cameras.door"


@pytest.fixture(scope="module")
def broker() -> Iterator[Tansu]:
    with Tansu() as made:
        made.make_topic(CAMERAS)
        yield made


def test_rows_go_to_a_topic_in_their_order_also_after_the_broker_was_away(env: Env, job: VideoJob) -> None:
    port = free_port()
    with Tansu(advertised_port=port) as broker, KafkaGate(port, broker.port):
        broker.make_topic(CAMERAS)
        sink = add(env, job.uid, SinkKind.KAFKA, f"kafka://127.0.0.1:{port}/{CAMERAS}")
        assert env.container.results.sinks.test(producer_in(env, job.uid), sink.sink_id, now=env.now) == ""
        take(env, job.uid, 2, 3)
        deliver(env, job.uid)
        assert state(env, job.uid) == ("idle", 2, 0, "")
    take(env, job.uid, 4)
    deliver(env, job.uid)
    word, delivered, backlog, problem = state(env, job.uid)
    assert (word, delivered, backlog) == ("failing", 2, 1)
    assert "cannot be reached" in problem and str(port) in problem
    with Tansu(advertised_port=port) as broker, KafkaGate(port, broker.port):
        broker.make_topic(CAMERAS)
        take(env, job.uid, *range(5, 300))
        deliver(env, job.uid)
        deliver(env, job.uid)
        assert state(env, job.uid) == ("idle", 298, 0, "")
        read = messages(f"127.0.0.1:{port}", CAMERAS, 296)
    assert [json.loads(one.value())["id"] for one in read] == [f"row/{n}" for n in range(4, 300)]
    keys = {(one.partition(), one.key()) for one in read}
    assert keys == {(read[0].partition(), f"/api/v2/video/jobs/{job.uid}".encode())}
    assert read[0].headers() == [("content-type", b"application/cloudevents+json")]


@pytest.mark.parametrize(("key", "keys"), [("node", {b"edge0", b"edge1"}), ("none", {None})])
def test_the_key_is_as_chosen(broker: Tansu, key: str, keys: set[bytes | None]) -> None:
    broker.make_topic(f"by.{key}")
    deliveries = [Delivery(n, {"id": f"row/{n}", "source": "s", "data": {"node": f"edge{n % 2}"}}) for n in range(4)]
    assert problem_of(f"kafka://{broker.address}/by.{key}?key={key}", *deliveries) == ""
    assert {one.key() for one in messages(broker.address, f"by.{key}", 4)} == keys


def test_a_producer_that_repeats_nothing_is_what_kafka_expects(monkeypatch: pytest.MonkeyPatch) -> None:
    mock = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 3, "log_level": 0})
    brokers = [f"{one.host}:{one.port}" for one in mock.list_topics(timeout=30).brokers.values()]
    starts: list[bool] = []

    class Noted(aiokafka.AIOKafkaProducer):  # type: ignore[misc]
        def __init__(self, *, enable_idempotence: bool, **options: Any) -> None:
            starts.append(enable_idempotence)
            super().__init__(enable_idempotence=enable_idempotence, **options)

    monkeypatch.setattr(aiokafka, "AIOKafkaProducer", Noted)
    mock.produce(CAMERAS, b"first")
    assert mock.flush(30) == 0, "the topic is there"
    deliveries = [Delivery(n, {"id": f"row/{n}", "source": "s", "data": {}}) for n in range(200)]
    assert problem_of(f"kafka://{','.join(brokers)}/{CAMERAS}", *deliveries) == ""
    assert starts == [True]
    read = messages(brokers[0], CAMERAS, 201, partitions=4)
    assert [json.loads(one.value())["id"] for one in read if one.key()] == [f"row/{n}" for n in range(200)]


def test_each_wrong_case_says_what_is_wrong(broker: Tansu) -> None:
    nowhere = free_port()
    assert f"127.0.0.1:{nowhere} cannot be reached" in problem_of(f"kafka://127.0.0.1:{nowhere}/a")
    assert "no.such.host.invalid:9092 cannot be reached" in problem_of("kafka://no.such.host.invalid/a")
    assert "private network" in KafkaSender((), try_s=10).send(at(f"kafka://{broker.address}/a"), [delivery()])
    assert problem_of(f"kafka://{broker.address}/nowhere") == "there is no topic nowhere, and none is made: create it"
    assert "offers none of SCRAM-SHA-512" in problem_of(f"kafka://me:secret@{broker.address}/{CAMERAS}")
    assert "cannot be reached" in problem_of(f"kafka://{'a' * 64}.test/a"), "no name of a host"
    # The second of two is enough.
    assert problem_of(f"kafka://127.0.0.1:{nowhere},{broker.address}/{CAMERAS}") == ""
    with Tansu(has_logins=True) as closed:
        address = f"{closed.address}/{CAMERAS}"
        assert "refused the user or the password" in problem_of(f"kafka://me:secret@{address}"), "by SCRAM"
        assert "a user and a password" in problem_of(f"kafka://{address}")


def test_a_message_too_large_is_left_out_and_the_next_ones_go_on(
    env: Env, job: VideoJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is never as large as the client's limit of 1 MiB: it is lowered here."""
    monkeypatch.setattr(aiokafka, "AIOKafkaProducer", partial(aiokafka.AIOKafkaProducer, max_request_size=3000))
    with Tansu() as broker:
        broker.make_topic(CAMERAS)
        add(env, job.uid, SinkKind.KAFKA, f"kafka://{broker.address}/{CAMERAS}")
        take_large(env, job.uid, 2, 100)
        take(env, job.uid, 3, 4)
        deliver(env, job.uid)
        assert state(env, job.uid) == ("idle", 2, 0, "")
        read = messages(broker.address, CAMERAS, 2)
    assert [json.loads(one.value())["id"] for one in read] == ["row/3", "row/4"]
    sink = sinks_of(env, job.uid)[0]
    assert sink.skipped == 1 and "too large for the topic" in sink.skip_reason


@pytest.mark.parametrize(
    ("code", "reason"), [(19, "too few replicas of the topic are in sync"), (56, "its disk is full or broken")]
)
def test_a_broker_that_refuses_messages_for_now_is_said_to_and_gets_them_later(code: int, reason: str) -> None:
    port = free_port()
    with Tansu(advertised_port=port) as broker, KafkaGate(port, broker.port) as gate:
        broker.make_topic(CAMERAS)
        address = f"kafka://localhost:{port}/{CAMERAS}"
        gate.refusal = code
        assert problem_of(address) == f"the broker stores nothing: {reason}"
        gate.refusal = 0
        assert problem_of(address) == ""


def test_a_message_too_large_for_the_broker_alone_is_left_out(env: Env, job: VideoJob) -> None:
    port = free_port()
    with Tansu(advertised_port=port) as broker, KafkaGate(port, broker.port) as gate:
        broker.make_topic(CAMERAS)
        add(env, job.uid, SinkKind.KAFKA, f"kafka://localhost:{port}/{CAMERAS}")
        gate.refusal = 10
        take(env, job.uid, 2)
        deliver(env, job.uid)
        gate.refusal = 0
        take(env, job.uid, 3)
        deliver(env, job.uid)
        assert state(env, job.uid) == ("idle", 1, 0, "")
    sink = sinks_of(env, job.uid)[0]
    assert sink.skipped == 1 and "too large for the topic" in sink.skip_reason


def test_a_server_that_says_nothing_is_given_up_and_the_next_one_is_tried(broker: Tansu) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        sender = KafkaSender(HERE, try_s=0.5)
        assert sender.send(at(f"kafka://{place}/a"), [delivery()]) == "no answer within 0.5 s"
        two = f"kafka://{place},{place}/a"
        assert sender.send(at(two), [delivery()]) == "; ".join([f"{place} has not answered within 0.125 s"] * 2)
        patient = KafkaSender(HERE, try_s=20)
        assert patient.send(at(f"kafka://{place},{broker.address}/{CAMERAS}"), [delivery()]) == ""


def test_a_broker_that_names_another_that_cannot_be_reached_is_said_to() -> None:
    """As when a broker in a container advertises an address that only its neighbours know."""
    elsewhere = free_port()
    with Tansu(advertised_port=elsewhere) as broker:
        broker.make_topic(CAMERAS)
        problem = KafkaSender(HERE, try_s=6).send(at(f"kafka://{broker.address}/{CAMERAS}"), [delivery()])
    assert f"localhost:{elsewhere} cannot be reached" in problem


def test_a_broker_cannot_have_a_password_hashed_for_hours() -> None:
    problem_of(f"kafka://127.0.0.1:{free_port()}/a")
    scram = aiokafka.conn.ScramAuthenticator(
        loop=None, sasl_plain_password="p", sasl_plain_username="u", sasl_mechanism="SCRAM-SHA-512"
    )
    with pytest.raises(NotSent, match="iterations"):
        scram.process_server_first_message(f"r={scram._nonce}x,s=c2FsdA==,i={kafka_sender.MOST_ITERATIONS + 1}")


def test_by_tls_with_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, now = CertificateAuthority("test"), datetime.now(UTC)
    request, until = new_request(), now + timedelta(days=1)
    certificate = authority.issue(request.request, "localhost", serial=1, now=now - timedelta(days=1), until=until)
    for name, content in (("key", request.key), ("certificate", certificate), ("authority", authority.certificate)):
        (tmp_path / name).write_text(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    port = free_port()
    with (
        Tansu(advertised_port=port) as broker,
        KafkaGate(port, broker.port, server_context=context, login=("mill", "r:ght")),
    ):
        place = f"localhost:{port}/{CAMERAS}"
        assert "certificate verify failed" in problem_of(f"kafkas://mill:r%3Aght@{place}"), "an unknown authority"
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority"))
        broker.make_topic(CAMERAS)
        assert problem_of(f"kafkas://mill:r%3Aght@{place}") == ""
        assert "refused the user or the password" in problem_of(f"kafkas://mill:wrong@{place}")
        assert "may expect TLS" in problem_of(f"kafka://mill:r%3Aght@{place}")


def test_without_its_library_it_is_said_what_to_install(
    web: Within, job: VideoJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_sender, "find_spec", lambda _: None)
    body = {"kind": "kafka", "address": "kafka://127.0.0.1/a"}
    answer = web.post(f"/api/v2/video/jobs/{job.uid}/sinks", json=body)
    assert answer.status_code == 501
    assert "modelmill[kafka]" in answer.json()["error"]["hint"]
    assert problem_of("kafka://127.0.0.1/a") == "aiokafka, which sends to Kafka, is not installed here"


def at(address: str) -> Sink:
    return replace(SINK, address=address)


def delivery(text: str = "") -> Delivery:
    return Delivery(1, {"id": "row/1", "source": "s", "data": {"text": text}})


def problem_of(address: str, *deliveries: Delivery) -> str:
    return KafkaSender(HERE, try_s=20).send(at(address), deliveries or [delivery()])
