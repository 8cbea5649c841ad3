"""Sinks in bad times: certificates that nobody knows, receivers that do not answer, an hour without a receiver, and a
long backlog."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import redis
import sqlalchemy as sa

from app.kit.clock import now, to_text
from app.kit.network.addresses import read_networks
from app.kit.network.answer_limit import MOST_BYTES, TOO_LONG
from app.kit.signatures.certificates import CertificateAuthority, new_request
from app.results.model.sink import Delivery, Sink, SinkContent, SinkKind
from app.results.senders import HttpSender, KafkaSender, MqttSender, RedisSender
from app.results.service import sinks as sink_service
from app.results.service.sinks import SinkSender
from app.results.store.tables import rule_events
from app.video.model.job import VideoJob
from tests.harness.faults.backend_deployment import small_disk
from tests.harness.kafka import Tansu, messages
from tests.harness.mosquitto import PATIENCE_S, Mosquitto
from tests.harness.valkey import Valkey
from tests.harness.video.nodes import USER, Env
from tests.harness.video.sinks import Receiver, add, deliver, running_receiver, sinks_of, state, take

HERE = read_networks("127.0.0.0/8")
SECRET = "whsec_" + "A" * 44
SENDERS = {
    SinkKind.HTTP: HttpSender,
    SinkKind.MQTT: MqttSender,
    SinkKind.REDIS: RedisSender,
    SinkKind.KAFKA: KafkaSender,
}
DELIVERY = Delivery(1, {"id": "row/1"})


def sink_at(kind: SinkKind, address: str) -> Sink:
    return Sink("5" * 32, "J", kind, SinkContent.ROWS, address, SECRET, "", 0)


@pytest.fixture
def strangers(tmp_path: Path) -> tuple[Path, Path]:
    """Certificate and key of an authority that no machine knows."""
    authority, at, request = CertificateAuthority("theirs"), datetime.now(UTC), new_request()
    pem = authority.issue(
        request.request, "localhost", serial=1, now=at - timedelta(days=1), until=at + timedelta(days=1)
    )
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"
    for file, text in zip(files, (pem, request.key), strict=True):
        file.write_text(text)
        file.chmod(0o644)
    return files


def test_a_broker_whose_certificate_nobody_knows_gets_no_password(strangers: tuple[Path, Path], tmp_path: Path) -> None:
    certificate, key = strangers
    with Mosquitto(tmp_path, options=[f"certfile {certificate}", f"keyfile {key}"]) as tls:
        sender = MqttSender(HERE, try_s=20)
        problem = sender.send(sink_at(SinkKind.MQTT, f"mqtts://me:secret@localhost:{tls.port}/a"), [DELIVERY])
    assert "certificate verify failed" in problem


def test_a_webhook_whose_certificate_nobody_knows_is_not_sent_to(strangers: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*strangers)
    with running_receiver(context) as receiver:
        url = receiver.url.replace("127.0.0.1", "localhost")
        assert "certificate verify failed" in HttpSender(HERE, try_s=20).send(sink_at(SinkKind.HTTP, url), [DELIVERY])
    assert receiver.requests == []


def test_a_wrong_password_is_said(shared_valkey: Valkey, receiver: Receiver) -> None:
    address = f"redis://nobody:wrong@127.0.0.1:{shared_valkey.port}/9/a"
    assert "invalid username-password" in RedisSender(HERE, try_s=20).send(sink_at(SinkKind.REDIS, address), [DELIVERY])
    receiver.status = 401
    assert HttpSender(HERE, try_s=20).send(sink_at(SinkKind.HTTP, receiver.url), [DELIVERY]) == "it answered 401"


@pytest.mark.parametrize(
    ("kind", "silent_problem", "gone_problem"),
    [
        (SinkKind.HTTP, "no answer within 2 s", "its host cannot be reached: Connection refused"),
        (SinkKind.MQTT, "the broker has not answered", "the broker: Connection refused"),
        (SinkKind.REDIS, "Redis: Timeout reading from socket", ".*Connection refused.*"),
    ],
)
def test_a_receiver_that_does_not_answer_is_given_up_and_one_that_is_gone_is_said_to_be(
    kind: SinkKind, silent_problem: str, gone_problem: str
) -> None:
    sender: SinkSender = SENDERS[kind](HERE, try_s=2)
    with silent() as port:
        sink = sink_at(kind, f"{kind.value}://127.0.0.1:{port}/0/a")
        assert re.fullmatch(silent_problem, sender.send(sink, [DELIVERY]))
    sender = SENDERS[kind](HERE, try_s=60)
    assert re.fullmatch(gone_problem, sender.send(sink, [DELIVERY]))


def test_an_hour_without_a_receiver_costs_few_tries_and_no_row(
    env: Env, job: VideoJob, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(env, job.uid, SinkKind.HTTP, receiver.url)
    receiver.status = 503
    began, tries = now(), 0
    for minute in range(60):
        take(env, job.uid, 2 + minute)
        monkeypatch.setattr(sink_service, "now", lambda minute=minute: began + timedelta(minutes=minute + 1))
        tries += env.container.results.sinks.deliver_due()
    assert 10 < tries < 25
    word, delivered, backlog, problem = state(env, job.uid)
    assert (word, delivered, backlog, problem) == ("failing", 0, 60, "it answered 503")
    receiver.status = 200
    receiver.requests.clear()
    monkeypatch.setattr(sink_service, "now", lambda: began + timedelta(minutes=70))
    env.container.results.sinks.deliver_due()
    assert state(env, job.uid) == ("idle", 60, 0, "")
    ids = [one["id"] for _, body in receiver.requests for one in json.loads(body)]
    assert ids == [f"row/{2 + minute}" for minute in range(60)]


def test_a_clock_that_is_set_back_delays_no_sink(
    env: Env, job: VideoJob, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(env, job.uid, SinkKind.HTTP, receiver.url)
    take(env, job.uid, 2)
    deliver(env, job.uid)
    take(env, job.uid, 3)
    hour_before = now() - timedelta(hours=1)
    monkeypatch.setattr(sink_service, "now", lambda: hour_before)
    env.container.results.sinks.deliver_due()
    assert state(env, job.uid) == ("idle", 2, 0, "")


def test_ten_thousand_events_that_waited_are_delivered_in_their_order_each_once(
    env: Env, job: VideoJob, receiver: Receiver
) -> None:
    add(env, job.uid, SinkKind.HTTP, receiver.url, SinkContent.EVENTS)
    receiver.status = 503
    add_events(env, job.uid, 10_000)
    deliver(env, job.uid)
    assert state(env, job.uid) == ("failing", 0, 10_000, "it answered 503")
    receiver.status = 200
    receiver.requests.clear()
    deliver(env, job.uid)
    assert state(env, job.uid) == ("idle", 10_000, 0, "")
    frames = [one["data"]["frame"] for _, body in receiver.requests for one in json.loads(body)]
    assert frames == list(range(10_000))


@pytest.mark.exhaustive
def test_ten_thousand_events_go_to_redis_kafka_and_files_in_their_order_each_once(
    env: Env, job: VideoJob, shared_valkey: Valkey
) -> None:
    stream = f"events:{job.uid}:{shared_valkey.port}"
    add(env, job.uid, SinkKind.REDIS, f"{shared_valkey.url(9)}/{stream}", SinkContent.EVENTS)
    env.later(1)
    add(env, job.uid, SinkKind.FILE, "datasets/door", SinkContent.EVENTS)
    env.later(1)
    with Tansu() as broker:
        broker.make_topic("events")
        add(env, job.uid, SinkKind.KAFKA, f"kafka://{broker.address}/events", SinkContent.EVENTS)
        add_events(env, job.uid, 10_000)
        while {one.word for one in sinks_of(env, job.uid)} != {"idle"}:
            deliver(env, job.uid)
        records = [json.loads(one.value()) for one in messages(broker.address, "events", 10_000)]
    with redis.Redis(port=shared_valkey.port, db=9) as client:
        entries = [json.loads(fields[b"event"]) for _, fields in client.xrange(stream)]
        client.delete(stream)
    files = env.container.homes.files
    paths = sorted(entry.path for entry in files.browse(USER, "datasets/door").entries)
    lines = [json.loads(line) for path in paths for line in b"".join(files.read(USER, path)).splitlines()]
    for received in (entries, lines, records):
        assert [one["data"]["frame"] for one in received] == list(range(10_000))


def add_events(env: Env, uid: str, count: int) -> None:
    at = to_text(env.now)
    event = {"uid": uid, "rule": "come", "zone": "", "at": at, "stored_at": at, "objects": "[]"}
    with env.container.database.write() as conn:
        conn.execute(sa.insert(rule_events), [{**event, "n_loop": n} for n in range(count)])


@pytest.mark.exhaustive
def test_a_broker_that_is_killed_among_ten_thousand_events_and_has_a_full_disk_gets_all_that_it_had_not_confirmed(
    env: Env, job: VideoJob, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        options = ["persistence true", f"persistence_location {disk}/", "autosave_interval 1"]
        with (disk / "filling").open("wb") as filling, pytest.raises(OSError, match="No space"):
            filling.write(bytes(1 << 20))
        broker = Mosquitto(tmp_path, options=[*options, "autosave_on_changes true"])
        with broker, ThreadPoolExecutor(1) as pool:
            add(env, job.uid, SinkKind.MQTT, f"mqtt://127.0.0.1:{broker.port}/a", SinkContent.EVENTS)
            messages = broker.subscribe("a")
            add_events(env, job.uid, 10_000)
            delivering = pool.submit(deliver, env, job.uid)
            for _ in range(1000):
                messages.get(timeout=PATIENCE_S)
            broker.kill()
            delivering.result()
            word, delivered, backlog, problem = state(env, job.uid)
            assert (word, delivered + backlog) == ("failing", 10_000) and problem
            assert 0 < delivered < 10_000
            broker.start()
            messages = broker.subscribe("a")
            while state(env, job.uid)[0] != "idle":
                deliver(env, job.uid)
            frames = [json.loads(messages.get(timeout=PATIENCE_S).payload)["data"]["frame"] for _ in range(backlog)]
    assert frames == list(range(delivered, 10_000))


@contextmanager
def silent() -> Iterator[int]:
    """The port of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


ENDLESS = {
    SinkKind.HTTP: ("http://127.0.0.1:{}/", b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"),
    SinkKind.MQTT: ("mqtt://127.0.0.1:{}/a", b"\x30\xff\xff\xff\x7f"),
    SinkKind.REDIS: ("redis://127.0.0.1:{}/0/a", b"$2000000000\r\n"),
    SinkKind.KAFKA: ("kafka://127.0.0.1:{}/a", b"\x7f\xff\xff\xff"),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_endless_answer_does_not_fill_the_memory(kind: SinkKind) -> None:
    address, beginning = ENDLESS[kind]
    with endless(beginning) as (port, sent):
        problem = SENDERS[kind](HERE, try_s=60).send(sink_at(kind, address.format(port)), [DELIVERY])
    assert (problem == "") is (kind is SinkKind.HTTP), problem  # whose answer is complete with its status
    assert kind is SinkKind.HTTP or TOO_LONG in problem, problem
    assert sum(sent) < 2 * MOST_BYTES, "of all connections; some of it nobody has read"


@contextmanager
def endless(beginning: bytes) -> Iterator[tuple[int, list[int]]]:
    """The port of a server that answers with this and then with zeros until its peer has gone, and the number of bytes
    that it has sent on each connection; it stops at 16 times of what is read."""
    sent, is_over = list[int](), threading.Event()

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                number = len(sent)
                sent.append(0)
                with connection, suppress(OSError):
                    connection.recv(1 << 16)
                    connection.sendall(beginning)
                    while sent[number] < 16 * MOST_BYTES and not is_over.is_set():
                        sent[number] += connection.send(bytes(1 << 16))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1], sent
        is_over.set()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
