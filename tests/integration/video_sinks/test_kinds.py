"""Each kind of sink against a real server of it, and the addresses that it has."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import jinja2
import pytest
from redis import Redis

from app.bootstrap import home_folders
from app.kit.network.addresses import read_networks
from app.kit.network.public_hosts import AddressRefused
from app.results import store
from app.results.errors import TooManySinkTests
from app.results.model.sink import Delivery, SinkContent, SinkKind
from app.results.senders import RedisSender
from app.results.service import sinks as sink_service
from app.video.model.job import VideoJob
from tests.harness.mosquitto import PATIENCE_S, Mosquitto
from tests.harness.users import Within
from tests.harness.valkey import Valkey
from tests.harness.video.nodes import USER, Env
from tests.harness.video.records import result
from tests.harness.video.sinks import Receiver, add, deliver, producer_in, sinks_of, state, take, take_large


def test_rows_go_by_mqtt_a_message_each_also_after_the_broker_was_away(env: Env, job: VideoJob, tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path, user="mill", password="p@ss:word")
    with broker:
        address = f"mqtt://mill:p%40ss%3Aword@127.0.0.1:{broker.port}/cameras/door"
        add(env, job.uid, SinkKind.MQTT, address)
        messages = broker.subscribe("cameras/#")
        take(env, job.uid, 2, 3)
        deliver(env, job.uid)
        first, second = (messages.get(timeout=PATIENCE_S) for _ in range(2))
        assert (first.topic, first.properties.ContentType) == ("cameras/door", "application/cloudevents+json")
        assert [json.loads(one.payload)["id"] for one in (first, second)] == ["row/2", "row/3"]
        assert state(env, job.uid) == ("idle", 2, 0, "")
        broker.stop()
        take(env, job.uid, 4)
        deliver(env, job.uid)
        word, delivered, backlog, problem = state(env, job.uid)
        assert (word, delivered, backlog) == ("failing", 2, 1)
        assert "refused" in problem
        broker.start()
        messages = broker.subscribe("cameras/#")
        deliver(env, job.uid)
        assert json.loads(messages.get(timeout=PATIENCE_S).payload)["id"] == "row/4"
    assert "p%40ss" not in sinks_of(env, job.uid)[0].shown_address


def test_a_long_backlog_goes_by_mqtt_in_its_order(env: Env, job: VideoJob, tmp_path: Path) -> None:
    """More than the client keeps on the way at once."""
    with Mosquitto(tmp_path) as broker:
        add(env, job.uid, SinkKind.MQTT, f"mqtt://127.0.0.1:{broker.port}/a")
        messages = broker.subscribe("a")
        rows = [{**result(n), "at": env.now.timestamp()} for n in range(2, 452)]
        report: Any = {"job_uid": job.uid, "seq": 2, "results": rows}
        env.reports.take(report, node="edge0", user="", now=env.now)
        deliver(env, job.uid)
        assert state(env, job.uid) == ("idle", 450, 0, "")
        ids = [json.loads(messages.get(timeout=PATIENCE_S).payload)["id"] for _ in rows]
    assert ids == [f"row/{n}" for n in range(2, 452)]


@pytest.mark.parametrize(
    "option",
    [
        "message_size_limit 2000",  # refuses a message
        pytest.param("max_packet_size 2000", marks=pytest.mark.exhaustive),  # ends the connection
    ],
)
def test_a_message_too_large_for_the_broker_is_left_out_and_the_next_ones_go_on(
    env: Env, job: VideoJob, tmp_path: Path, option: str
) -> None:
    with Mosquitto(tmp_path, options=[option]) as broker:
        add(env, job.uid, SinkKind.MQTT, f"mqtt://127.0.0.1:{broker.port}/a")
        messages = broker.subscribe("a")
        take(env, job.uid, 2)
        take_large(env, job.uid, 3, 100)
        take(env, job.uid, 4, 5)
        for _ in range(8):  # the end of a connection may overtake the reason for it
            deliver(env, job.uid)
        assert state(env, job.uid) == ("idle", 3, 0, "")
        ids = list[str]()
        while "row/5" not in ids:
            ids.append(json.loads(messages.get(timeout=PATIENCE_S).payload)["id"])
    assert list(dict.fromkeys(ids)) == ["row/2", "row/4", "row/5"], "at least once"
    sink = sinks_of(env, job.uid)[0]
    assert sink.skipped == 1
    assert sink.skip_reason.startswith("row/3, ") and "too large" in sink.skip_reason.lower()


def test_a_broker_that_lets_nobody_in_is_said_to(env: Env, job: VideoJob, tmp_path: Path) -> None:
    with Mosquitto(tmp_path, user="mill", password="right") as broker:
        add(env, job.uid, SinkKind.MQTT, f"mqtt://mill:wrong@127.0.0.1:{broker.port}/a")
        take(env, job.uid, 2)
        deliver(env, job.uid)
    word, _, backlog, problem = state(env, job.uid)
    assert (word, backlog) == ("failing", 1)
    assert "Not authorized" in problem


def test_home_assistant_finds_sensors_and_their_last_state_also_later(env: Env, job: VideoJob, tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker:
        address = f"mqtt://127.0.0.1:{broker.port}/cameras/door"
        rows = add(env, job.uid, SinkKind.HOME_ASSISTANT, address)
        env.later(1)
        events = add(env, job.uid, SinkKind.HOME_ASSISTANT, address, SinkContent.EVENTS)
        take(env, job.uid, 2, 3, 4)
        deliver(env, job.uid)
        assert [one.word for one in sinks_of(env, job.uid)] == ["idle", "idle"]
        messages = broker.subscribe("#")
        retained = {one.topic: json.loads(one.payload) for one in (messages.get(timeout=PATIENCE_S) for _ in range(4))}
    device = retained[f"homeassistant/device/modelmill_{rows.sink_id}/config"]
    assert device["device"]["identifiers"] == [f"modelmill_{job.uid}"] and device["origin"]
    assert device["components"].keys() == {"objects", "count_up", "count_total"}
    for sensor in device["components"].values():
        state = retained[sensor["state_topic"]]
        shown = jinja2.Template(sensor["value_template"]).render(value_json=state)
        assert (sensor["platform"], shown) == ("sensor", {"objects": "1", "up": "0", "total": "4"}[sensor["name"]])
    assert retained["cameras/door/state"]["labels"] == {"person": 1}
    (last,) = retained[f"homeassistant/device/modelmill_{events.sink_id}/config"]["components"].values()
    event = retained[last["state_topic"]]
    assert jinja2.Template(last["value_template"]).render(value_json=event) == event["time"]
    assert (event["frame"], event["rule"], event["text"]) == (4, "come", "person")


def test_rows_go_to_a_stream_of_redis_all_of_a_try_or_none(
    env: Env, job: VideoJob, shared_valkey: Valkey, tmp_path: Path
) -> None:
    add(env, job.uid, SinkKind.REDIS, f"redis://127.0.0.1:{shared_valkey.port}/9/cameras:door")
    take(env, job.uid, 2, 3)
    deliver(env, job.uid)
    with Redis(port=shared_valkey.port, db=9) as client:
        entries = [json.loads(entry[b"event"]) for _, entry in client.xrange("cameras:door")]
        assert [one["id"] for one in entries] == ["row/2", "row/3"]
        client.set("cameras:door", "no stream")
        take(env, job.uid, 4)
        deliver(env, job.uid)
        word, delivered, backlog, problem = state(env, job.uid)
        assert (word, delivered, backlog) == ("failing", 2, 1) and "WRONGTYPE" in problem
        client.delete("cameras:door")
        deliver(env, job.uid)
        assert client.xlen("cameras:door") == 1
    assert state(env, job.uid) == ("idle", 3, 0, "")


def test_rows_go_to_files_of_the_owners_home_in_segments_each_once(
    env: Env, job: VideoJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = env.container.homes.files
    sink = add(env, job.uid, SinkKind.FILE, "datasets/cameras/door")
    take(env, job.uid, 2, 499, 500)
    deliver(env, job.uid)
    take(env, job.uid, 501)
    deliver(env, job.uid)
    with env.container.database.write() as conn:
        store.change_sink(conn, sink.sink_id, cursor=499)
    deliver(env, job.uid)
    assert state(env, job.uid) == ("idle", 6, 0, ""), "two of them twice"
    assert env.container.results.sinks.test(producer_in(env, job.uid), sink.sink_id, now=env.now) == ""
    entries = {one.name: one.path for one in files.browse(USER, "datasets/cameras/door").entries}
    ids = {
        name: [json.loads(line)["id"] for line in b"".join(files.read(USER, path)).splitlines()]
        for name, path in entries.items()
        if "-test" not in name
    }
    assert len(entries) == 3
    assert ids == {
        f"{job.uid}-rows-{sink.sink_id[:8]}-000000000.jsonl": ["row/2", "row/499"],
        f"{job.uid}-rows-{sink.sink_id[:8]}-000000500.jsonl": ["row/500", "row/501"],
    }


def test_a_file_that_its_owner_has_put_there_is_not_read_into_memory(
    env: Env, job: VideoJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(env, job.uid, SinkKind.FILE, "datasets/door")
    take(env, job.uid, 2)
    deliver(env, job.uid)
    monkeypatch.setattr(home_folders, "MOST_BYTES", 10)
    take(env, job.uid, 3)
    deliver(env, job.uid)
    word, delivered, backlog, problem = state(env, job.uid)
    assert (word, delivered, backlog) == ("failing", 1, 1) and "has more than 10 bytes" in problem


def test_a_full_home_takes_no_rows_and_says_so_until_there_is_room(env: Env, job: VideoJob) -> None:
    users = env.container.accounts.users
    add(env, job.uid, SinkKind.FILE, "datasets/door")
    users.change(USER, quota_bytes=100, by="test")
    take(env, job.uid, 2)
    deliver(env, job.uid)
    word, delivered, backlog, problem = state(env, job.uid)
    assert (word, delivered, backlog) == ("failing", 0, 1) and "may hold 100 bytes" in problem
    users.change(USER, quota_bytes=None, by="test")
    deliver(env, job.uid)
    assert state(env, job.uid) == ("idle", 1, 0, "")


def test_a_server_that_says_a_byte_now_and_then_is_given_up(env: Env, job: VideoJob) -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                while not over.wait(0.02):
                    connection.sendall(b"+")

        thread = threading.Thread(target=trickle)
        thread.start()
        sink = add(env, job.uid, SinkKind.REDIS, f"redis://127.0.0.1:{listener.getsockname()[1]}/0/rows")
        delivery = Delivery(1, {"id": "row/1"})
        assert RedisSender(read_networks("127.0.0.0/8"), try_s=2).send(sink, [delivery]) == "no answer within 2 s"
        over.set()
        thread.join()


def test_only_so_many_sinks_are_tested_at_once(env: Env, job: VideoJob, receiver: Receiver) -> None:
    sink, sinks = add(env, job.uid, SinkKind.HTTP, receiver.url), env.container.results.sinks
    for _ in range(sink_service.TESTS_AT_ONCE):
        sinks._room_for_tests.acquire()
    try:
        with pytest.raises(TooManySinkTests):
            sinks.test(producer_in(env, job.uid), sink.sink_id, now=env.now)
    finally:
        sinks._room_for_tests.release(sink_service.TESTS_AT_ONCE)
    assert sinks.test(producer_in(env, job.uid), sink.sink_id, now=env.now) == ""


def test_private_addresses_are_refused_where_no_network_is_allowed(
    env: Env, job: VideoJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks = env.container.results.sinks
    networks = sinks.networks
    monkeypatch.setattr(sinks, "networks", ())
    for kind, address in (
        (SinkKind.HTTP, "http://127.0.0.1/"),
        (SinkKind.MQTT, "mqtt://10.0.0.1/a"),
        (SinkKind.REDIS, "redis://127.0.0.1/0/a"),
    ):
        with pytest.raises(AddressRefused):
            add(env, job.uid, kind, address)
    monkeypatch.setattr(sinks, "networks", networks)
    monkeypatch.setattr(sinks, "senders", {SinkKind.REDIS: RedisSender((), try_s=2)})
    sink = add(env, job.uid, SinkKind.REDIS, "redis://127.0.0.1/0/a")
    assert "private network" in sinks.test(producer_in(env, job.uid), sink.sink_id, now=env.now)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"kind": "mqtt", "address": "mqtt://127.0.0.1"}, 400),  # no topic
        ({"kind": "mqtt", "address": "mqtt://127.0.0.1/a/#"}, 400),
        ({"kind": "mqtt", "address": "https://127.0.0.1/a"}, 400),
        ({"kind": "mqtt", "address": "mqtt://[::/a"}, 400),
        ({"kind": "home_assistant", "address": "redis://127.0.0.1/0/a"}, 400),
        ({"kind": "file", "address": "jobs/door"}, 400),
        ({"kind": "file", "address": "datasets/../door"}, 400),
        ({"kind": "redis", "address": "redis://127.0.0.1/a"}, 400),  # no database
        ({"kind": "redis", "address": "redis://127.0.0.1/0"}, 400),
        ({"kind": "redis", "address": "rediss://127.0.0.1/0/a"}, 400),
        ({"kind": "kafka", "address": "kafka://127.0.0.1/a?acks=1"}, 400),
        ({"kind": "http", "address": "mqtt://127.0.0.1/a"}, 400),
        ({"kind": "ftp", "address": "http://127.0.0.1/a"}, 422),
    ],
)
def test_an_address_that_nothing_can_be_sent_to_is_refused(
    web: Within, job: VideoJob, body: dict[str, str], status: int
) -> None:
    place = f"/api/v2/video/jobs/{job.uid}/sinks"
    answer = web.post(place, json=body)
    assert answer.status_code == status
    assert answer.json()["error"]["hint"]
    assert web.get(place).json() == {"sinks": []}
