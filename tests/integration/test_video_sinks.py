"""Rows and events go to receivers of HTTP and brokers of MQTT, real ones, in order, at least once, also after they were
away."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jinja2
import pytest
from redis import Redis
from standardwebhooks.webhooks import Webhook

from app.accounts.model import Role
from app.bootstrap.container import Container
from app.kit.network.public_hosts import AddressRefused
from app.video import store
from app.video.model.job import VideoJob
from app.video.model.rule import Rule, RuleSet
from app.video.model.sink import MOST_SINKS, Sink, SinkContent, SinkKind
from app.video.service import sinks as sink_service
from tests.harness.mosquitto import PATIENCE_S, Mosquitto
from tests.harness.users import OURS, Within, within
from tests.harness.valkey import Valkey
from tests.harness.video.nodes import USER, Scene
from tests.harness.video.records import result
from tests.harness.video.web import emptied, settings_in

PAST = "2000-01-01T00:00:00.000Z"


class Receiver:
    """status: what it answers. bodies: of the requests that it has taken."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[tuple[dict[str, str], str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                outer.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/rows"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, shared_valkey: Valkey) -> Iterator[Within]:
    settings = settings_in(tmp_path_factory.mktemp("web"), shared_valkey)
    with within(settings.model_copy(update={"notification_networks": "127.0.0.0/8"})) as made:
        yield made


@pytest.fixture
def container(web: Within) -> Container:
    made: Container = web.app.state.container
    emptied(made)
    return made


@pytest.fixture
def scene(container: Container) -> Scene:
    return Scene(container)


@pytest.fixture
def job(scene: Scene) -> VideoJob:
    """With a rule, and a row before there is any sink."""
    made = scene.running()
    scene.video.rules.put(USER, made.uid, RuleSet((), (Rule("come", cooldown_s=0),)))
    take(scene, made.uid, 1)
    return made


def take(scene: Scene, uid: str, *numbers: int) -> None:
    """Reports with a row each, every second one with a person; a minute apart."""
    for n in numbers:
        boxes = [[10.0, 20.0, 30.0, 60.0]] if n % 2 == 0 else []
        facts = {"bbox": boxes, "labels": ["person"] * len(boxes), "scores": [0.9] * len(boxes), "size": [100, 100]}
        row = {**result(n), "at": scene.now.timestamp(), **facts}
        report: Any = {"job_uid": uid, "seq": n, "results": [row]}
        scene.reports.take(report, node="edge0", user="", now=scene.now)
        scene.later(60)


def add(scene: Scene, uid: str, kind: SinkKind, address: str, content: SinkContent = SinkContent.ROWS) -> Sink:
    return scene.video.sinks.add(USER, uid, kind, content, address, now=scene.now)


def due(scene: Scene, uid: str) -> None:
    """As if the pauses were over."""
    with scene.container.database.write() as conn:
        for sink in store.sinks_of(conn, uid):
            store.change_sink(conn, sink.sink_id, due_at=PAST)


def deliver(scene: Scene, uid: str) -> None:
    due(scene, uid)
    scene.video.sinks.deliver_due()


def state(scene: Scene, uid: str) -> tuple[str, int, int, str]:
    (one,) = scene.video.sinks.of(USER, uid)
    return one.word, one.sink.delivered, one.backlog, one.sink.problem


def test_rows_from_then_on_go_by_http_in_order_and_signed(scene: Scene, job: VideoJob, receiver: Receiver) -> None:
    sink = add(scene, job.uid, SinkKind.HTTP, receiver.url)
    take(scene, job.uid, 2, 3)
    deliver(scene, job.uid)
    ((headers, body),) = receiver.requests
    Webhook(sink.secret).verify(body, headers)
    assert headers["content-type"] == "application/cloudevents-batch+json"
    first, second = json.loads(body)
    assert (first["specversion"], first["id"], first["source"]) == ("1.0", "row/2", f"/api/v2/video/jobs/{job.uid}")
    assert first["data"]["objects"] == [{"label": "person", "score": 0.9, "bbox": [10.0, 20.0, 30.0, 60.0]}]
    assert first["data"]["counts"] == {"up": 2, "total": 4}
    assert first["data"]["size"] == [100, 100]
    assert second["id"] == "row/3"
    assert state(scene, job.uid) == ("idle", 2, 0, "")
    deliver(scene, job.uid)
    assert len(receiver.requests) == 1


def test_a_sink_that_is_down_gets_all_of_it_when_it_is_back(
    scene: Scene, job: VideoJob, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_service, "PARCELS", 2)
    add(scene, job.uid, SinkKind.HTTP, receiver.url)
    take(scene, job.uid, 2, 3)
    receiver.status = 503
    deliver(scene, job.uid)
    assert state(scene, job.uid) == ("failing", 0, 2, "it answered 503")
    scene.video.sinks.deliver_due()
    assert len(receiver.requests) == 1, "it has a pause"
    take(scene, job.uid, 4, 5, 6)
    receiver.status = 200
    receiver.requests.clear()
    deliver(scene, job.uid)
    assert [[one["id"] for one in json.loads(body)] for _, body in receiver.requests] == [
        ["row/2", "row/3"],
        ["row/4", "row/5"],
        ["row/6"],
    ]
    assert state(scene, job.uid) == ("idle", 5, 0, "")


def test_a_disabled_users_sinks_wait(scene: Scene, job: VideoJob, receiver: Receiver) -> None:
    scene.container.accounts.users.create("admin", Role.ADMIN, by="test")
    add(scene, job.uid, SinkKind.HTTP, receiver.url)
    take(scene, job.uid, 2)
    scene.container.accounts.users.change(USER, is_enabled=False, by="test")
    deliver(scene, job.uid)
    assert state(scene, job.uid) == ("failing", 0, 1, "its user is disabled")
    scene.container.accounts.users.change(USER, is_enabled=True, by="test")
    deliver(scene, job.uid)
    assert state(scene, job.uid) == ("idle", 1, 0, "")
    assert len(receiver.requests) == 1


def test_one_that_is_not_there_holds_up_no_other(scene: Scene, job: VideoJob, receiver: Receiver) -> None:
    add(scene, job.uid, SinkKind.HTTP, "http://127.0.0.1:1/")
    scene.later(1)
    add(scene, job.uid, SinkKind.HTTP, receiver.url)
    take(scene, job.uid, 2)
    deliver(scene, job.uid)
    down, up = scene.video.sinks.of(USER, job.uid)
    assert (down.word, up.word) == ("failing", "idle")
    assert down.sink.problem


def test_a_fault_of_ours_is_told_and_holds_up_no_other(
    scene: Scene, job: VideoJob, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(scene.video.sinks.senders, SinkKind.MQTT, None)
    add(scene, job.uid, SinkKind.MQTT, "mqtt://127.0.0.1/a")
    scene.later(1)
    add(scene, job.uid, SinkKind.HTTP, receiver.url)
    take(scene, job.uid, 2)
    deliver(scene, job.uid)
    broken, good = scene.video.sinks.of(USER, job.uid)
    assert (broken.sink.problem, good.word) == ("a fault of this service: AttributeError", "idle")


def test_rows_that_have_gone_are_not_looked_for_again_and_again(scene: Scene, job: VideoJob) -> None:
    add(scene, job.uid, SinkKind.HTTP, "http://127.0.0.1:1/")
    take(scene, job.uid, 2)
    scene.video.results.forget_old(scene.now + timedelta(days=400))
    due(scene, job.uid)
    assert scene.video.sinks.deliver_due() == 1
    assert state(scene, job.uid) == ("idle", 0, 0, "")


def test_events_go_there_and_not_rows(scene: Scene, job: VideoJob, receiver: Receiver) -> None:
    add(scene, job.uid, SinkKind.HTTP, receiver.url, SinkContent.EVENTS)
    take(scene, job.uid, 2, 3, 4)
    deliver(scene, job.uid)
    ((_, body),) = receiver.requests
    assert [(one["type"], one["data"]["rule"], one["data"]["text"]) for one in json.loads(body)] == [
        ("modelmill.video.event", "come", "person")
    ] * 2


def test_what_was_lost_between_delivery_and_note_is_delivered_again(
    scene: Scene, job: VideoJob, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(scene, job.uid, SinkKind.HTTP, receiver.url)
    take(scene, job.uid, 2)
    with monkeypatch.context() as patched:
        patched.setattr(scene.video.sinks, "_noted", _killed)
        with pytest.raises(KeyboardInterrupt):
            deliver(scene, job.uid)
    deliver(scene, job.uid)
    assert [json.loads(body)[0]["id"] for _, body in receiver.requests] == ["row/2", "row/2"]


def _killed(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_a_job_that_has_ended_delivers_the_rest_and_is_forgotten_with_its_sinks(
    scene: Scene, job: VideoJob, receiver: Receiver
) -> None:
    add(scene, job.uid, SinkKind.HTTP, receiver.url)
    take(scene, job.uid, 2)
    scene.jobs.cancel(USER, job.uid, now=scene.now)
    deliver(scene, job.uid)
    assert state(scene, job.uid) == ("idle", 1, 0, "")
    scene.jobs.delete(USER, job.uid)
    with scene.container.database.read() as conn:
        assert store.sinks_of(conn, job.uid) == []


def test_whoever_delivers_is_woken_by_rows_of_jobs_that_have_a_sink(
    scene: Scene, job: VideoJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[bool] = []
    monkeypatch.setattr(scene.reports, "wake_sinks", lambda: woken.append(True))
    take(scene, job.uid, 2)
    assert not woken
    add(scene, job.uid, SinkKind.HTTP, "http://127.0.0.1:1/")
    take(scene, job.uid, 3)
    assert woken == [True]


def test_rows_go_by_mqtt_a_message_each_also_after_the_broker_was_away(
    scene: Scene, job: VideoJob, tmp_path: Path
) -> None:
    broker = Mosquitto(tmp_path, user="mill", password="p@ss:word")
    with broker:
        address = f"mqtt://mill:p%40ss%3Aword@127.0.0.1:{broker.port}/cameras/door"
        add(scene, job.uid, SinkKind.MQTT, address)
        messages = broker.subscribe("cameras/#")
        take(scene, job.uid, 2, 3)
        deliver(scene, job.uid)
        first, second = (messages.get(timeout=PATIENCE_S) for _ in range(2))
        assert (first.topic, first.properties.ContentType) == ("cameras/door", "application/cloudevents+json")
        assert [json.loads(one.payload)["id"] for one in (first, second)] == ["row/2", "row/3"]
        assert state(scene, job.uid) == ("idle", 2, 0, "")
        broker.stop()
        take(scene, job.uid, 4)
        deliver(scene, job.uid)
        word, delivered, backlog, problem = state(scene, job.uid)
        assert (word, delivered, backlog) == ("failing", 2, 1)
        assert "refused" in problem
        broker.start()
        messages = broker.subscribe("cameras/#")
        deliver(scene, job.uid)
        assert json.loads(messages.get(timeout=PATIENCE_S).payload)["id"] == "row/4"
    assert "p%40ss" not in scene.video.sinks.of(USER, job.uid)[0].sink.shown_address


def test_a_long_backlog_goes_by_mqtt_in_its_order(scene: Scene, job: VideoJob, tmp_path: Path) -> None:
    """More than the client keeps on the way at once."""
    with Mosquitto(tmp_path) as broker:
        add(scene, job.uid, SinkKind.MQTT, f"mqtt://127.0.0.1:{broker.port}/a")
        messages = broker.subscribe("a")
        rows = [{**result(n), "at": scene.now.timestamp()} for n in range(2, 452)]
        report: Any = {"job_uid": job.uid, "seq": 2, "results": rows}
        scene.reports.take(report, node="edge0", user="", now=scene.now)
        deliver(scene, job.uid)
        assert state(scene, job.uid) == ("idle", 450, 0, "")
        ids = [json.loads(messages.get(timeout=PATIENCE_S).payload)["id"] for _ in rows]
    assert ids == [f"row/{n}" for n in range(2, 452)]


def test_a_broker_that_lets_nobody_in_is_said_to(scene: Scene, job: VideoJob, tmp_path: Path) -> None:
    with Mosquitto(tmp_path, user="mill", password="right") as broker:
        add(scene, job.uid, SinkKind.MQTT, f"mqtt://mill:wrong@127.0.0.1:{broker.port}/a")
        take(scene, job.uid, 2)
        deliver(scene, job.uid)
    word, _, backlog, problem = state(scene, job.uid)
    assert (word, backlog) == ("failing", 1)
    assert "Not authorized" in problem


def test_home_assistant_finds_sensors_and_their_last_state_also_later(
    scene: Scene, job: VideoJob, tmp_path: Path
) -> None:
    with Mosquitto(tmp_path) as broker:
        address = f"mqtt://127.0.0.1:{broker.port}/cameras/door"
        rows = add(scene, job.uid, SinkKind.HOME_ASSISTANT, address)
        scene.later(1)
        events = add(scene, job.uid, SinkKind.HOME_ASSISTANT, address, SinkContent.EVENTS)
        take(scene, job.uid, 2, 3, 4)
        deliver(scene, job.uid)
        assert [one.word for one in scene.video.sinks.of(USER, job.uid)] == ["idle", "idle"]
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
    scene: Scene, job: VideoJob, shared_valkey: Valkey, tmp_path: Path
) -> None:
    add(scene, job.uid, SinkKind.REDIS, f"redis://127.0.0.1:{shared_valkey.port}/9/cameras:door")
    take(scene, job.uid, 2, 3)
    deliver(scene, job.uid)
    with Redis(port=shared_valkey.port, db=9) as client:
        entries = [json.loads(entry[b"event"]) for _, entry in client.xrange("cameras:door")]
        assert [one["id"] for one in entries] == ["row/2", "row/3"]
        client.set("cameras:door", "no stream")
        take(scene, job.uid, 4)
        deliver(scene, job.uid)
        word, delivered, backlog, problem = state(scene, job.uid)
        assert (word, delivered, backlog) == ("failing", 2, 1) and "WRONGTYPE" in problem
        client.delete("cameras:door")
        deliver(scene, job.uid)
        assert client.xlen("cameras:door") == 1
    assert state(scene, job.uid) == ("idle", 3, 0, "")


def test_a_test_goes_at_once_and_its_answer_is_shown(
    web: Within, scene: Scene, job: VideoJob, receiver: Receiver, tmp_path: Path
) -> None:
    place, page = f"/api/v2/video/jobs/{job.uid}/sinks", f"/ui/video/{job.uid}/sinks"
    sink = add(scene, job.uid, SinkKind.HTTP, receiver.url)
    take(scene, job.uid, 2)
    answer = web.post(f"{place}/{sink.sink_id}/test")
    assert answer.json() == {"is_taken": True, "problem": ""}
    ((headers, body),) = receiver.requests
    Webhook(sink.secret).verify(body, headers)
    assert json.loads(body)[0]["type"] == "modelmill.video.test"
    assert state(scene, job.uid) == ("delivering", 0, 1, ""), "what waits goes on waiting"
    receiver.status = 410
    assert web.post(f"{place}/{sink.sink_id}/test").json() == {"is_taken": False, "problem": "it answered 410"}
    shown = web.post(f"{page}/test", data={"sink_id": sink.sink_id}, headers=OURS).text
    assert "The test was not taken:" in shown and "it answered 410" in shown
    assert web.post(f"{place}/{'0' * 32}/test").status_code == 404
    with Mosquitto(tmp_path) as broker:
        messages = broker.subscribe("#")
        for kind in (SinkKind.MQTT, SinkKind.HOME_ASSISTANT):
            sink = add(scene, job.uid, kind, f"mqtt://127.0.0.1:{broker.port}/a")
            assert scene.video.sinks.test(USER, job.uid, sink.sink_id, now=scene.now) == ""
        topics = [messages.get(timeout=PATIENCE_S).topic for _ in range(2)]
    assert topics == ["a", "a/test"]


def test_private_addresses_are_refused_where_no_network_is_allowed(
    scene: Scene, job: VideoJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene.video.sinks, "networks", ())
    for kind, address in (
        (SinkKind.HTTP, "http://127.0.0.1/"),
        (SinkKind.MQTT, "mqtt://10.0.0.1/a"),
        (SinkKind.REDIS, "redis://127.0.0.1/0/a"),
    ):
        with pytest.raises(AddressRefused):
            add(scene, job.uid, kind, address)
    monkeypatch.setattr(scene.video.sinks.senders[SinkKind.REDIS], "_networks", ())
    monkeypatch.setattr(scene.video.sinks, "networks", scene.video.sinks.senders[SinkKind.MQTT]._networks)  # type: ignore[attr-defined]
    sink = add(scene, job.uid, SinkKind.REDIS, "redis://127.0.0.1/0/a")
    assert "private network" in scene.video.sinks.test(USER, job.uid, sink.sink_id, now=scene.now)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"kind": "mqtt", "address": "mqtt://127.0.0.1"}, 400),  # no topic
        ({"kind": "mqtt", "address": "mqtt://127.0.0.1/a/#"}, 400),
        ({"kind": "mqtt", "address": "https://127.0.0.1/a"}, 400),
        ({"kind": "mqtt", "address": "mqtt://[::/a"}, 400),
        ({"kind": "home_assistant", "address": "redis://127.0.0.1/0/a"}, 400),
        ({"kind": "redis", "address": "redis://127.0.0.1/a"}, 400),  # no database
        ({"kind": "redis", "address": "redis://127.0.0.1/0"}, 400),
        ({"kind": "redis", "address": "rediss://127.0.0.1/0/a"}, 400),
        ({"kind": "http", "address": "mqtt://127.0.0.1/a"}, 422),
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


def test_programs_add_list_and_remove_sinks(web: Within, job: VideoJob) -> None:
    place = f"/api/v2/video/jobs/{job.uid}/sinks"
    body = {"kind": "mqtt", "address": "mqtts://me:secret@127.0.0.1/a/b", "content": "rows"}
    made = web.post(place, json=body)
    assert made.status_code == 201
    assert made.json()["address"] == "mqtts://me:***@127.0.0.1/a/b"
    (listed,) = web.get(place).json()["sinks"]
    assert (listed["state"], listed["backlog"], listed["delivered_at"]) == ("idle", 0, None)
    assert "secret" not in listed
    assert web.request("DELETE", made.headers["location"]).status_code == 204
    assert web.request("DELETE", made.headers["location"]).status_code == 404
    for _ in range(MOST_SINKS):
        assert web.post(place, json=body).status_code == 201
    assert web.post(place, json=body).status_code == 429


def test_the_page_adds_shows_and_removes_sinks(web: Within, scene: Scene, job: VideoJob) -> None:
    page = f"/ui/video/{job.uid}/sinks"
    fields = {"kind": "http", "content": "rows", "address": "http://127.0.0.1:1/rows"}
    assert "whsec_" in web.post(page, data=fields, headers=OURS).text
    take(scene, job.uid, 2)
    deliver(scene, job.uid)
    shown = web.get(page).text
    assert "whsec_" not in shown
    assert "1 try in vain" in shown
    refused = web.post(page, data={**fields, "kind": "mqtt"}, headers=OURS)
    assert refused.status_code == 400
    assert 'id="field-address-problem"' in refused.text
    assert fields["address"] in refused.text
    (one,) = scene.video.sinks.of(USER, job.uid)
    web.post(f"{page}/remove", data={"sink_id": one.sink.sink_id}, headers=OURS)
    assert scene.video.sinks.of(USER, job.uid) == []
