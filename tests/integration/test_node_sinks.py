"""Sinks to which a node delivers itself: a real agent, a real Mosquitto, a receiver of HTTP, a web that is away."""

from __future__ import annotations

import json
import queue
import signal
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.nodes.model import NODE_REPORT, WorkKey
from app.results.model.producer import Producer
from app.results.model.rule import Rule, RuleSet
from app.results.model.sink import NODE_SINKS, PART, SentBy, Sink, SinkContent, SinkKind, SinkOrder
from app.video.model.job import JOBS
from app.video.model.job import PART as RUNNER
from tests.harness.agent.web import ScriptedWeb, scripted_web
from tests.harness.http_server import respond, served
from tests.harness.mosquitto import PATIENCE_S, Mosquitto
from tests.harness.ports import free_port
from tests.harness.until import until
from tests.harness.video.sinks import Receiver, running_receiver
from tests.integration.test_video_agent import VideoNode
from tests.integration.video_sinks.test_faults import strangers
from tests.unit.edge.video.test_drivers import UID, job_order

__all__ = ["strangers"]
ORDER = WorkKey(NODE_SINKS, UID, PART)
SECRET = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
PLACE = f"/api/v2/video/jobs/{UID}"
FACTS = {"job": UID, "node": "edge0", "video_id": "0"}
PRODUCER = Producer("video", UID, "", "", PLACE, "", "video", "", f"video:{UID}", FACTS)
COME = RuleSet((), (Rule("come", cooldown_s=0),))
AT = 1764400000.0
ALLOWED = ("--sink-networks", "127.0.0.0/8")


def sink(number: int, kind: SinkKind, address: str, content: SinkContent = SinkContent.ROWS, **other: Any) -> Sink:
    secret = SECRET if kind is SinkKind.HTTP else ""
    return Sink(f"{number:032x}", UID, kind, content, address, secret, "", 0, sent_by=SentBy.NODE, **other)


def mqtt(number: int, broker: Mosquitto, content: SinkContent = SinkContent.ROWS, **other: Any) -> Sink:
    return sink(number, SinkKind.MQTT, f"mqtt://mill:p%40ss@127.0.0.1:{broker.port}/cameras/door", content, **other)


class SinkNode(VideoNode):
    """Its job never runs, since the node has no such video: the test reports in its place."""

    def report(self, *numbers: int, seq: int | None = None, **facts: Any) -> int:
        """A row each, every second one with a person, with these facts. Returns the status of the agent's answer."""
        answer = httpx.post(
            f"{self.url_here}/node/sync_job_result",
            json={"job_uid": UID, "seq": seq or numbers[-1], "results": [{**row(n), **facts} for n in numbers]},
            trust_env=False,
            timeout=PATIENCE_S,
        )
        return answer.status_code


def row(n: int) -> dict[str, Any]:
    boxes = [[10.0, 20.0, 30.0, 60.0]] if n % 2 == 0 else []
    objects = {"bbox": boxes, "labels": ["person"] * len(boxes), "scores": [0.9] * len(boxes), "size": [100, 100]}
    return {"n_loop": n, "at": AT + 60 * n, "total": len(boxes), **objects}


def tell(web: ScriptedWeb, *sinks: Sink, rules: RuleSet = COME, **other: Any) -> None:
    order = SinkOrder(PRODUCER, sinks, rules, **other)
    web.tell(ORDER, UID, order.to_json())
    until(lambda: web.orders[ORDER].is_acknowledged)


def progress(web: ScriptedWeb, one: Sink) -> dict[str, Any]:
    return vars(web.report.sinks[one.sink_id]) if one.sink_id in web.report.sinks else {}


def ids(messages: queue.Queue[Any], last: str) -> list[str]:
    """Of all that come until this one."""
    seen = list[str]()
    while last not in seen:
        seen.append(json.loads(messages.get(timeout=PATIENCE_S).payload)["id"])
    return seen


@pytest.fixture
def web() -> Iterator[ScriptedWeb]:
    with scripted_web() as made:
        yield made


@pytest.fixture
def node(tmp_path: Path, web: ScriptedWeb) -> Iterator[SinkNode]:
    made = SinkNode(tmp_path, web.url)
    made.start(*ALLOWED)
    web.tell(WorkKey(JOBS, UID, RUNNER), UID, job_order().content)
    until(lambda: web.orders[WorkKey(JOBS, UID, RUNNER)].is_acknowledged)
    yield made
    made.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path, user="mill", password="p@ss") as made:
        yield made


def test_rows_and_events_go_on_while_the_web_is_away(web: ScriptedWeb, node: SinkNode, broker: Mosquitto) -> None:
    rows, events = broker.subscribe("cameras/door"), broker.subscribe("events")
    of_events = sink(2, SinkKind.MQTT, f"mqtt://mill:p%40ss@127.0.0.1:{broker.port}/events", SinkContent.EVENTS)
    tell(web, mqtt(1, broker), of_events)
    web.stop()
    assert [node.report(1, 2, 3), node.report(4, 5)] == [200, 200]
    assert node.report(4, 5) == 200, "which the runner repeats, since it may not have arrived"
    assert node.report(6) == 200
    envelopes = [json.loads(rows.get(timeout=PATIENCE_S).payload) for _ in range(6)]
    assert [one["id"] for one in envelopes] == [f"row/{n}" for n in range(1, 7)]
    second = envelopes[1]
    assert (second["source"], second["type"], second["data"]["job"]) == (PLACE, "modelmill.video.row", UID)
    assert (second["data"]["frame"], second["data"]["objects"][0]["label"]) == (2, "person")
    happened = [json.loads(events.get(timeout=PATIENCE_S).payload) for _ in range(3)]
    assert [one["id"] for one in happened] == ["event/come/2", "event/come/4", "event/come/6"]
    assert (happened[0]["data"]["rule"], happened[0]["data"]["text"]) == ("come", "person")
    assert (rows.empty(), events.empty()) == (True, True)
    web.start()
    until(lambda: progress(web, of_events).get("delivered") == 3)
    until(lambda: [json.loads(body)["seq"] for _, body in web.posts], [3, 5, 5, 6].__eq__)


def test_nothing_that_was_accepted_is_lost_when_the_agent_is_killed(
    web: ScriptedWeb, node: SinkNode, broker: Mosquitto
) -> None:
    tell(web, mqtt(1, broker))
    web.stop()
    broker.stop()
    for n in range(1, 31):
        assert node.report(2 * n - 1, 2 * n) == 200
    node.end(signal.SIGKILL)
    broker.start()
    messages = broker.subscribe("cameras/door")
    node.start(*ALLOWED)
    assert node.report(61) == 200
    seen = ids(messages, "row/61")
    assert list(dict.fromkeys(seen)) == [f"row/{n}" for n in range(1, 62)], "in order, at least once"
    node.end(signal.SIGKILL)
    node.start(*ALLOWED)
    assert node.report(62) == 200
    again = ids(messages, "row/62")
    assert list(dict.fromkeys(again)) in (["row/62"], ["row/61", "row/62"])


def test_a_receiver_that_is_slow_delays_no_other_and_one_that_fails_says_why(
    web: ScriptedWeb, node: SinkNode, broker: Mosquitto
) -> None:
    may_answer = threading.Event()

    def hang(request: Any, _: bytes) -> None:
        may_answer.wait(PATIENCE_S)
        respond(request)

    messages = broker.subscribe("cameras/door")
    refusing: Receiver
    with served(hang) as url, running_receiver() as refusing:
        refusing.status = 503
        slow, failing = sink(2, SinkKind.HTTP, f"{url}/rows"), sink(3, SinkKind.HTTP, refusing.url)
        tell(web, slow, failing, mqtt(1, broker))
        assert node.report(1, 2) == 200
        assert ids(messages, "row/2") == ["row/1", "row/2"]
        until(lambda: progress(web, failing).get("problem") == "it answered 503")
        assert (progress(web, failing)["queued"], progress(web, failing)["tries"]) == (2, 1)
        refusing.status = 200
        tell(web, slow, failing)
        until(lambda: progress(web, failing).get("delivered") == 2)
        headers, body = refusing.requests[-1]
        assert "webhook-signature" in headers
        assert [one["id"] for one in json.loads(body)] == ["row/1", "row/2"]
        may_answer.set()


def test_each_refusal_is_said_and_what_was_refused_is_delivered_once_it_is_accepted(
    web: ScriptedWeb, node: SinkNode, broker: Mosquitto, strangers: tuple[Path, Path]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*strangers)
    messages = broker.subscribe("#")
    with running_receiver() as receiver, running_receiver() as full, running_receiver(context) as unknown:
        receiver.status, full.status = 401, 507
        wrong = replace(mqtt(1, broker), address=f"mqtt://mill:wr0ng@127.0.0.1:{broker.port}/wrong")
        elsewhere = replace(mqtt(2, broker), address=f"mqtt://mill:p%40ss@localhost:{free_port()}/elsewhere")
        encrypted = sink(3, SinkKind.HTTP, unknown.url.replace("127.0.0.1", "localhost"))
        lost = sink(4, SinkKind.HTTP, "http://receiver.invalid/")
        others = sink(5, SinkKind.HTTP, receiver.url), sink(6, SinkKind.HTTP, full.url)
        refused = [wrong, elsewhere, encrypted, lost, *others]
        reasons = ["Not authorized", "Connection refused", "certificate verify failed", "its host cannot be resolved"]
        tell(web, *refused, mqtt(7, broker))
        assert node.report(1, 2) == 200
        assert ids(messages, "row/2") == ["row/1", "row/2"], "the sink that works"
        for one, reason in zip(refused, [*reasons, "it answered 401", "it answered 507"], strict=True):
            until(lambda one=one, reason=reason: reason in progress(web, one).get("problem", ""), what=reason)
            assert (progress(web, one)["queued"], progress(web, one)["delivered"]) == (2, 0)
            assert "wr0ng" not in progress(web, one)["problem"] and "p%40ss" not in progress(web, one)["problem"]
        assert unknown.requests == []
        receiver.status = full.status = 200
        place = f"mqtt://mill:p%40ss@127.0.0.1:{broker.port}"
        mended = [replace(one, address=f"{place}/{one.sink_id}") for one in (wrong, elsewhere)]
        mended += [replace(one, address=f"{receiver.url}/{one.sink_id}") for one in (encrypted, lost)]
        tell(web, *mended, *others)
        for one in refused:
            until(lambda one=one: progress(web, one).get("delivered") == 2, what=one.address)
            assert (progress(web, one)["queued"], progress(web, one)["problem"]) == (0, "")
    topics = [messages.get(timeout=PATIENCE_S).topic for _ in range(4)]
    assert sorted(topics) == sorted([wrong.sink_id, elsewhere.sink_id] * 2)


@pytest.mark.parametrize("kind", [SinkKind.MQTT, SinkKind.HTTP])
def test_a_message_too_large_for_its_receiver_is_left_out_and_the_next_ones_go_on(
    web: ScriptedWeb, node: SinkNode, tmp_path: Path, kind: SinkKind
) -> None:
    with Mosquitto(tmp_path, options=["message_size_limit 2000"]) as broker, running_receiver() as receiver:
        receiver.most_bytes = 2000
        address = f"mqtt://127.0.0.1:{broker.port}/door" if kind is SinkKind.MQTT else receiver.url
        messages, one = broker.subscribe("door"), sink(1, kind, address)
        tell(web, one)
        assert node.report(1) == node.report(2, bbox=[[0, 0, 1, 1]] * 100) == node.report(3, 4) == 200
        until(lambda: (progress(web, one).get("delivered"), progress(web, one).get("queued")) == (3, 0))
        assert (progress(web, one)["skipped"], progress(web, one)["problem"]) == (1, "")
        assert progress(web, one)["skip_reason"].startswith("row/2, ")
        if kind is SinkKind.MQTT:
            seen = ids(messages, "row/4")
        else:
            taken = [json.loads(body) for _, body in receiver.requests if len(body) <= receiver.most_bytes]
            seen = [envelope["id"] for batch in taken for envelope in batch]
        assert list(dict.fromkeys(seen)) == ["row/1", "row/3", "row/4"]


def test_ten_thousand_rows_that_waited_go_in_their_order_from_an_agent_that_is_killed_among_them(
    web: ScriptedWeb, node: SinkNode
) -> None:
    with running_receiver() as receiver:
        receiver.status, one = 503, sink(1, SinkKind.HTTP, receiver.url)
        tell(web, one)
        for first in range(1, 10_001, 500):
            assert node.report(*range(first, first + 500)) == 200
        assert node.rows("sink_queue") == 10_000
        until(lambda: progress(web, one).get("problem") == "it answered 503")
        receiver.requests.clear()
        receiver.status = 200
        tell(web, one)
        until(lambda: len(receiver.requests) > 1)
        node.end(signal.SIGKILL)
        assert node.rows("sink_queue") > 0, "killed among them"
        node.start(*ALLOWED)
        until(lambda: (progress(web, one)["delivered"], progress(web, one)["queued"]) == (10_000, 0))
        taken = [envelope["id"] for _, body in receiver.requests for envelope in json.loads(body)]
    assert list(dict.fromkeys(taken)) == [f"row/{n}" for n in range(1, 10_001)], "at least once"


def test_a_test_is_sent_once_and_answered(web: ScriptedWeb, node: SinkNode, broker: Mosquitto) -> None:
    messages = broker.subscribe("cameras/door")
    tell(web, mqtt(1, broker, test_id="a1"))
    until(lambda: progress(web, mqtt(1, broker)).get("test_id") == "a1")
    assert json.loads(messages.get(timeout=PATIENCE_S).payload)["id"] == "test/a1"
    broker.stop()
    node.end(signal.SIGKILL)
    node.start(*ALLOWED)
    tell(web, mqtt(1, broker, test_id="b2"))
    until(lambda: progress(web, mqtt(1, broker)).get("test_id") == "b2")
    assert "refused" in progress(web, mqtt(1, broker))["test_problem"]


def test_a_network_that_the_node_does_not_allow_is_not_sent_to(
    web: ScriptedWeb, node: SinkNode, broker: Mosquitto
) -> None:
    node.end(signal.SIGTERM)
    node.start()
    messages, one = broker.subscribe("cameras/door"), mqtt(1, broker)
    tell(web, one)
    assert node.report(1) == 200
    until(lambda: "--sink-networks" in progress(web, one).get("problem", ""))
    assert messages.empty()


def test_a_sink_is_paused_and_removed_with_all_that_waits_and_its_password_is_nowhere(
    web: ScriptedWeb, node: SinkNode, broker: Mosquitto
) -> None:
    messages, one = broker.subscribe("cameras/door"), mqtt(1, broker)
    tell(web, one, is_paused=True)
    assert node.report(1, 2) == 200
    assert (node.rows("sink_queue"), messages.empty()) == (2, True)
    tell(web, one)
    assert ids(messages, "row/2") == ["row/1", "row/2"]
    broker.stop()
    assert node.report(3) == 200
    until(lambda: progress(web, one).get("problem"))
    web.withdraw(ORDER)
    until(lambda: one.sink_id not in web.report.sinks)
    assert (node.rows("sink_queue"), node.rows("sinks"), node.rows("sink_rows")) == (0, 0, 0)
    assert node.report(4) == 200
    reports = json.dumps([NODE_REPORT.write(sign.report) for sign in web.signs])
    assert not any(word in text for word in ("p%40ss", "p@ss", SECRET) for text in (reports, node.log_text()))
