"""Each kind of sink that a node delivers to, in the whole product: a job's rows go to a real server of it, which is not
reached for a time, while the agent is killed twice."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from redis import Redis

from app.results.model.sink import SinkKind
from tests.harness.command_line import run
from tests.harness.kafka import PARTITIONS, Tansu
from tests.harness.mosquitto import Mosquitto
from tests.harness.page_text import text_of
from tests.harness.tcp_proxy import TcpProxy
from tests.harness.until import until
from tests.harness.valkey import Valkey
from tests.harness.video.cluster import EDGE, VIDEO, VideoCluster, one_stage
from tests.harness.video.sinks import running_receiver

pytestmark = pytest.mark.slow
TOPIC = "cameras/door"


class RealReceiver(ABC):
    """A server behind a proxy.

    Args:
        address: of the sink; {}: the port of the proxy.
    """

    address: str
    are_all_kept = True
    """False: only what came last."""

    @abstractmethod
    def __init__(self, folder: Path, proxy: TcpProxy, stack: ExitStack) -> None:
        """Starts the server, which ends with the stack."""

    @abstractmethod
    def frames(self) -> list[int]:
        """Numbers of the rows that it has taken."""


class HttpServer(RealReceiver):
    address = "http://127.0.0.1:{}/rows"

    def __init__(self, folder: Path, proxy: TcpProxy, stack: ExitStack) -> None:
        self._receiver = stack.enter_context(running_receiver())
        proxy.target = int(self._receiver.url.split(":")[2].partition("/")[0])

    def frames(self) -> list[int]:
        return [frame_of(one) for _, body in self._receiver.requests for one in json.loads(body)]


class RedisServer(RealReceiver):
    address = "redis://127.0.0.1:{}/3/cameras:door"

    def __init__(self, folder: Path, proxy: TcpProxy, stack: ExitStack) -> None:
        server = Valkey(folder)
        stack.callback(server.kill)
        proxy.target = server.port
        self._client = Redis(port=server.port, db=3)
        stack.callback(self._client.close)

    def frames(self) -> list[int]:
        return [frame_of(json.loads(fields[b"event"])) for _, fields in self._client.xrange("cameras:door")]


class HomeAssistantBroker(RealReceiver):
    address = f"mqtt://127.0.0.1:{{}}/{TOPIC}"
    are_all_kept = False

    def __init__(self, folder: Path, proxy: TcpProxy, stack: ExitStack) -> None:
        broker = stack.enter_context(Mosquitto(folder))
        proxy.target = broker.port
        self._messages = broker.subscribe("#")
        self._topics, self._frames = set[str](), list[int]()

    def frames(self) -> list[int]:
        while not self._messages.empty():
            message = self._messages.get()
            self._topics.add(message.topic)
            if message.topic == f"{TOPIC}/state":
                self._frames.append(json.loads(message.payload)["frame"])
        assert not self._frames or any(topic.startswith("homeassistant/device/") for topic in self._topics)
        return self._frames


class KafkaBroker(RealReceiver):
    address = "kafka://127.0.0.1:{}/cameras.door"

    def __init__(self, folder: Path, proxy: TcpProxy, stack: ExitStack) -> None:
        broker = stack.enter_context(Tansu(advertised_port=proxy.port))
        broker.make_topic("cameras.door")
        proxy.target = broker.port
        options = {
            "bootstrap.servers": f"127.0.0.1:{proxy.port}",
            "group.id": "test",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        self._consumer, self._frames = Consumer(options), list[int]()
        stack.callback(self._consumer.close)
        self._consumer.assign([TopicPartition("cameras.door", number, 0) for number in range(PARTITIONS)])

    def frames(self) -> list[int]:
        while (one := self._consumer.poll(0.1)) is not None:
            self._frames += [] if one.error() else [frame_of(json.loads(one.value()))]
        return self._frames


RECEIVERS: dict[SinkKind, type[RealReceiver]] = {
    SinkKind.HTTP: HttpServer,
    SinkKind.REDIS: RedisServer,
    SinkKind.HOME_ASSISTANT: HomeAssistantBroker,
    SinkKind.KAFKA: KafkaBroker,
}


def frame_of(envelope: dict[str, Any]) -> int:
    assert envelope["id"] == f"row/{envelope['data']['frame']}"
    return int(envelope["data"]["frame"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Iterator[VideoCluster]:
    made = VideoCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.start()
        clip = shared_data / "video" / "classroom-270p.mp4"
        made.agent(EDGE, "edge", "--video", f"people indoor={clip}", "--sink-networks", "127.0.0.0/8")
        made.stage("sizes", "sizes")
        until(lambda: "sizes" in str(made.http.get("/get_resource_info").json()))
        yield made
    finally:
        made.close()


@contextmanager
def running(kind: SinkKind, folder: Path) -> Iterator[tuple[RealReceiver, TcpProxy]]:
    proxy = TcpProxy(0)
    with ExitStack() as stack:
        receiver = RECEIVERS[kind](folder, proxy, stack)
        with proxy:
            yield receiver, proxy


@pytest.mark.parametrize("kind", RECEIVERS)
def test_no_row_is_lost_and_what_is_shown_is_true(cluster: VideoCluster, tmp_path: Path, kind: SinkKind) -> None:
    uid = cluster.submit(one_stage("sizes"), policy="edge_only", restart_policy="always")
    place, agent = f"{VIDEO}/jobs/{uid}", cluster.agents[EDGE]
    until(lambda: cluster.frames(uid))

    def shown() -> dict[str, Any]:
        (sink,) = cluster.http.get(f"{place}/sinks").json()["sinks"]
        return dict(sink)

    def typed_and_paged() -> tuple[str, str]:
        environment = {**os.environ, "MODELMILL_URL": cluster.deployment.url}
        listed = run("video", "sinks", "list", uid, environment=environment).stdout
        return " ".join(listed.split()), text_of(cluster.http.get(f"/ui/video/{uid}/sinks").text)

    def restart_agent() -> None:
        agent.kill()
        agent.start()

    with running(kind, tmp_path) as (receiver, proxy):
        body = {"kind": kind, "content": "rows", "address": receiver.address.format(proxy.port), "sent_by": "node"}
        assert cluster.http.post(f"{place}/sinks", json=body).status_code == 201
        until(receiver.frames)
        proxy.refuse()
        until(shown, lambda sink: sink["state"] == "failing" and sink["backlog"] > 0)
        restart_agent()
        sink = until(shown, lambda sink: sink["backlog"] > 20)
        assert (sink["state"], sink["nodes"], sink["lost"]) == ("failing", [EDGE], 0)
        listed, page = typed_and_paged()
        assert f"by {EDGE} failing {sink['delivered']} delivered" in listed
        assert "failing" in page and f"Sent by: {EDGE}" in page
        until(lambda: shown()["problem"] in typed_and_paged()[1], what="the page has the reason of the last try")
        restart_agent()
        proxy.open()
        cluster.http.post(f"{place}/cancel")
        until(lambda: not cluster.runners(EDGE) and cluster.waiting(EDGE) == 0)
        rows = [json.loads(line)["n_loop"] for line in cluster.http.get(f"{place}/rows.jsonl").text.splitlines()]
        until(receiver.frames, lambda frames: frames[-1] >= rows[-1])

        def is_true(sink: dict[str, Any]) -> bool:
            """As soon as the node has reported its last rows."""
            least = len(set(receiver.frames()))
            is_all = sink["delivered"] == least if receiver.are_all_kept else sink["delivered"] >= least
            return is_all and (sink["state"], sink["backlog"]) == ("idle", 0)

        sink, taken = until(shown, is_true), receiver.frames()
    once = list(dict.fromkeys(taken))
    assert once == sorted(once), "in order, at least once"
    assert (sink["lost"], sink["skipped"], sink["problem"]) == (0, 0, "")
    if receiver.are_all_kept:
        expected = [frame for frame in rows if frame >= once[0]]
        assert once[: len(expected)] == expected, "a job that was canceled may still send rows, which no web takes"
    listed, page = typed_and_paged()
    assert f"idle {sink['delivered']} delivered, 0 waiting" in listed and "up to date" in page
