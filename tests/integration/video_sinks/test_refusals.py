"""Sinks with a wrong address, certificate or permission: what is wrong is said, and what waits is delivered later."""

from __future__ import annotations

import json
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.kit.network.addresses import read_networks
from app.kit.signatures.certificates import CertificateAuthority, new_request
from app.results.model.sink import Delivery, Sink, SinkContent, SinkKind
from app.results.senders import HttpSender, MqttSender, RedisSender
from app.results.service.sinks import SinkSender
from app.video.model.job import VideoJob
from tests.harness.faults.backend_deployment import small_disk
from tests.harness.mosquitto import PATIENCE_S, Mosquitto
from tests.harness.until import until
from tests.harness.valkey import Valkey
from tests.harness.video.nodes import Env
from tests.harness.video.sinks import add, deliver, running_receiver, state, take

HERE = read_networks("127.0.0.0/8")
TRY_S = 120.0
DELIVERIES = (Delivery(1, {"id": "row/1"}),)
PASSWORD = "hunter2"


def problem_of(sender: SinkSender, kind: SinkKind, address: str, deliveries: Sequence[Delivery] = DELIVERIES) -> str:
    secret = "whsec_" + "A" * 44
    problem = sender.send(Sink("5" * 32, "J", kind, SinkContent.ROWS, address, secret, "", 0), deliveries)
    assert PASSWORD not in problem
    return problem


@pytest.mark.parametrize(
    ("sender", "kind", "path"),
    [(HttpSender, SinkKind.HTTP, ""), (MqttSender, SinkKind.MQTT, "/a"), (RedisSender, SinkKind.REDIS, "/0/a")],
)
def test_a_host_that_is_not_known_is_said(
    sender: type[HttpSender | MqttSender | RedisSender], kind: SinkKind, path: str
) -> None:
    problem = problem_of(sender(HERE, try_s=TRY_S), kind, f"{kind}://ann:{PASSWORD}@receiver.invalid{path}")
    assert problem.startswith("its host cannot be resolved: ") and "Errno" not in problem


@pytest.fixture(
    params=[
        ("localhost", 1, ""),
        ("broker.example", 1, "certificate verify failed: Hostname mismatch"),
        ("localhost", -1, "certificate verify failed: certificate has expired"),
    ],
    ids=["good", "another name", "expired"],
)
def reason(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Why a receiver with the files `certificate` and `key` is refused; empty: it is not. The machine knows their
    authority."""
    name, days, why = request.param
    authority, signing = CertificateAuthority("ours"), new_request()
    end = datetime.now(UTC) + timedelta(days=days)
    pem = authority.issue(signing.request, name, serial=1, now=end - timedelta(days=2), until=end)
    for file, text in (("certificate", pem), ("key", signing.key), ("authority", authority.certificate)):
        (tmp_path / file).write_text(text)
        (tmp_path / file).chmod(0o644)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority"))
    return str(why)


def test_the_certificate_of_a_webhook_has_to_be_of_a_known_authority_good_and_its_own(
    tmp_path: Path, reason: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    with running_receiver(context) as receiver:
        url = receiver.url.replace("127.0.0.1", "localhost")
        problem = problem_of(HttpSender(HERE, try_s=TRY_S), SinkKind.HTTP, url)
    assert reason in problem if reason else problem == ""
    assert len(receiver.requests) == (not reason)


def test_the_certificate_of_a_broker_has_to_be_of_a_known_authority_good_and_its_own(
    tmp_path: Path, reason: str
) -> None:
    options = [f"certfile {tmp_path / 'certificate'}", f"keyfile {tmp_path / 'key'}"]
    sender = MqttSender(HERE, try_s=TRY_S)
    with Mosquitto(tmp_path, options=options) as broker:
        problem = problem_of(sender, SinkKind.MQTT, f"mqtts://ann:{PASSWORD}@localhost:{broker.port}/a")
        assert reason in problem if reason else problem == ""
        if not reason:
            plain = problem_of(sender, SinkKind.MQTT, f"mqtt://localhost:{broker.port}/a")
            assert plain.startswith("the connection has ended"), "it is given up at once"
    with Mosquitto(tmp_path) as broker:
        wrong = problem_of(sender, SinkKind.MQTT, f"mqtts://localhost:{broker.port}/a")
        assert wrong.startswith("the broker: "), "TLS where there is none"


def test_a_topic_that_the_user_may_not_write_to_is_said_and_delivered_to_once_it_may(
    env: Env, job: VideoJob, tmp_path: Path
) -> None:
    rights = tmp_path / "rights"
    rights.write_text("topic read #\n")
    rights.chmod(0o644)
    broker = Mosquitto(tmp_path, options=[f"acl_file {rights}"])
    with broker:
        add(env, job.uid, SinkKind.MQTT, f"mqtt://127.0.0.1:{broker.port}/door")
        take(env, job.uid, 2, 3)
        deliver(env, job.uid)
        word, delivered, backlog, problem = state(env, job.uid)
        assert (word, delivered, backlog) == ("failing", 0, 2)
        assert problem == "the broker has refused a message: Not authorized"
    rights.write_text("topic #\n")
    with broker:
        messages = broker.subscribe("door")
        deliver(env, job.uid)
        assert state(env, job.uid) == ("idle", 2, 0, "")
        ids = [json.loads(messages.get(timeout=PATIENCE_S).payload)["id"] for _ in range(2)]
    assert ids == ["row/2", "row/3"]


def test_a_stream_of_redis_that_may_not_be_written_or_is_none_is_said(tmp_path: Path) -> None:
    server, sender = Valkey(tmp_path), RedisSender(HERE, try_s=TRY_S)
    try:
        server.client.execute_command(
            "ACL", "SETUSER", "ann", "on", f">{PASSWORD}", "~door", "+xadd", "+multi", "+exec"
        )
        server.client.execute_command("ACL", "SETUSER", "ann", "+select", "+client")
        place = f"redis://ann:{PASSWORD}@127.0.0.1:{server.port}"
        assert problem_of(sender, SinkKind.REDIS, f"{place}/0/door") == ""
        assert "No permissions to access a key" in problem_of(sender, SinkKind.REDIS, f"{place}/0/gate")
        assert "DB index is out of range" in problem_of(sender, SinkKind.REDIS, f"{place}/999/door")
        server.client.delete("door")
        server.client.set("door", "a text")
        assert "wrong kind of value" in problem_of(sender, SinkKind.REDIS, f"{place}/0/door")
    finally:
        server.kill()


def save(server: Valkey, status: str) -> None:
    """It ends with this status."""
    server.client.bgsave()
    until(lambda: server.client.info("persistence")["rdb_last_bgsave_status"] == status)


def test_a_redis_with_a_full_disk_takes_no_rows_until_there_is_room(env: Env, job: VideoJob, tmp_path: Path) -> None:
    """It refuses to be written to, as by default, while it cannot save itself."""
    with small_disk(tmp_path / "disk", "64k") as disk:
        server = Valkey(disk)
        try:
            add(env, job.uid, SinkKind.REDIS, f"{server.url(0)}/rows")
            server.client.config_set("save", "3600 1000000")
            with (disk / "filling").open("wb") as filling, pytest.raises(OSError, match="No space"):
                filling.write(bytes(1 << 20))
            save(server, "err")
            take(env, job.uid, 2, 3)
            deliver(env, job.uid)
            word, delivered, backlog, problem = state(env, job.uid)
            assert (word, delivered, backlog) == ("failing", 0, 2), problem
            assert "unable to persist to disk" in problem
            (disk / "filling").unlink()
            save(server, "ok")
            deliver(env, job.uid)
            assert state(env, job.uid) == ("idle", 2, 0, "")
            ids = [json.loads(fields[b"event"])["id"] for _, fields in server.client.xrange("rows")]
            assert ids == ["row/2", "row/3"]
        finally:
            server.kill()
