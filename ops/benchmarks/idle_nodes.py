"""What many nodes cost the web side: `ops/bench idle_nodes [--nodes N,N,…] [--seconds S]`.

The agents are simulated in this process, with the product's own link and client of the web: each registers, keeps its
connection, stores and acknowledges orders, and sends its heartbeats; its host of stages and its video are only
reported. Web server and controllers are real. For each number of nodes: CPU of the web side until all have joined and
their orders have come to rest; then, while nothing happens, CPU and heartbeats a minute, each of which is one write,
and the memory (PSS) of the web server for each connection; with WebSockets, and for the largest number by long polling,
too.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.edge.agent.link import SocketBlocked, WebLink
from app.edge.agent.web_client import WebClient
from app.kit.clock import now, to_text
from app.kit.queue.messages import Queue
from app.nodes import wire
from app.nodes.model import NodeReport, Operation, Order, Side, WorkerReport, WorkerState
from app.video.model.job import JOBS, SERVICES
from app.video.service.resources import host_key
from tests.harness.deployment import DRAMATIQ
from tests.harness.joint.deployment import JointDeployment

COUNTS, SECONDS = (10, 50, 100), 60
NO_ACCOUNTS = ""
"""In place of an administrator's token: the web server has no users."""
CLOUDS = 4
"""Of the nodes, those in the cloud."""
QUEUES = (Queue.JOINT, Queue.NODES, Queue.VIDEO, Queue.VIDEO_PLANS, Queue.PERIODIC)
AT_REST_S = 12.0
"""Without an order for so long, all have what they are to have."""


class PollingLink(WebLink):
    """As behind a proxy that lets no socket through."""

    async def _by_socket(self) -> None:
        raise SocketBlocked("it is measured by long poll")


class SimulatedAgent:
    """A node with a video and, when it is ordered, a host of stages."""

    def __init__(self, url: str, number: int, *, polls: bool) -> None:
        self.name = f"node{number:03}"
        self.address = f"10.1.{number // 200}.{number % 200 + 1}"
        self.side = Side.CLOUD if number < CLOUDS else Side.EDGE
        self.orders: dict[str, Order] = {}
        self.order_count = self.order_bytes = self.heartbeats = 0
        self.web = WebClient(url, self.name)
        self.link = (PollingLink if polls else WebLink)(
            self.web,
            join=self._join,
            heartbeat=self._heartbeat,
            store_order=self._store,
            on_connected=lambda: None,
            node=self.name,
        )

    async def _join(self) -> None:
        self.web.token = await self.web.register(self.name, self.side, replace=True, admin_token=NO_ACCOUNTS)

    def _heartbeat(self, is_first: bool) -> wire.Heartbeat:
        self.heartbeats += 1
        key = host_key(self.name)
        order = self.orders.get(str(key))
        video = {"0": {"type": "people indoor", "name": "hall.mp4", "size": "1280x720", "fps": "24"}}
        offers = {JOBS: {"address": f"{self.address}:7000", "videos": video}} if self.side is Side.EDGE else {}
        workers = () if order is None else (self._host(order),)
        report = NodeReport(0.1, 0.3, 0.2, 8 << 30, 4, 50 << 30, offers=offers, workers=workers)
        seqs = {key: order.seq for key, order in self.orders.items()} if is_first else None
        return wire.Heartbeat("0.1.0", self.address, report, seqs)

    def _host(self, order: Order) -> WorkerReport:
        """As a real one reports it: with the links that it has measured."""
        way = {"up_mbps": 90.0, "down_mbps": 90.0, "rtt_ms": 1.0, "at": to_text(now())}
        detail = {
            "n_process": 1,
            "cpu_ratio": round(0.01 + self.heartbeats % 7 / 100, 3),
            "mem_ratio": 0.02,
            "queue": 0,
            "stages": dict.fromkeys(order.content["stages"], ""),
            "way": {peer["node"]: way for peer in order.content["peers"]},
            "pids": [],
        }
        address = f"{self.address}:8000"
        return WorkerReport(
            order.key, order.namespace, order.name, order.name, 1, WorkerState.RUNNING, 1, address, detail=detail
        )

    async def _store(self, order: Order) -> None:
        self.order_count += 1
        self.order_bytes += len(wire.dump_frame(wire.order_frame(order)))
        if order.operation is Operation.DELETE:
            self.orders.pop(str(order.key), None)
        else:
            self.orders[str(order.key)] = order
        if order.key.kind == SERVICES:
            self.link.report_soon()


@dataclass(frozen=True)
class Cost:
    """join_cpu_s: of the web side until all have joined; orders: that the nodes were sent; web_cpu_s, control_cpu_s,
    heartbeats: a minute; pss_bytes: of the web server, for each connection."""

    count: int
    polls: bool
    join_cpu_s: float
    orders: int
    order_bytes: int
    web_cpu_s: float
    control_cpu_s: float
    pss_bytes: float
    heartbeats: float

    def __str__(self) -> str:
        way = "long poll" if self.polls else "socket"
        return (
            f"{self.count:>6} {way:10} {self.join_cpu_s:>9.1f} s {self.orders:>8} {self.order_bytes / 1e6:>8.2f} MB"
            f"{self.web_cpu_s:>10.2f} s {self.control_cpu_s:>8.2f} s {self.web_cpu_s / self.count * 1000:>9.1f} ms"
            f"{self.heartbeats:>10.0f} {self.pss_bytes / 1024:>9.0f} KiB"
        )


TITLE = (
    f"{'nodes':>6} {'by':10} {'to join':>11} {'orders':>8} {'of them':>11}{'web/min':>12} {'control':>10}"
    f" {'web/node':>12}{'beats/min':>10} {'PSS/node':>13}"
)


def main(options: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="ops/bench idle_nodes", description=__doc__)
    parser.add_argument("--nodes", type=_counts, default=COUNTS, help="numbers of nodes; default 10,50,100")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each idle measurement; default {SECONDS}")
    parsed = parser.parse_args(options)
    print(TITLE, flush=True)
    for count in parsed.nodes:
        for polls in (False, True) if count == max(parsed.nodes) else (False,):
            print(_measured(count, parsed.seconds, polls=polls), flush=True)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


class WebSide(JointDeployment):
    """The web server and its controllers."""

    def control(self) -> None:
        command = [DRAMATIQ, "actors", "--queues", *QUEUES, "--processes", "1", "--threads", "4"]
        self.controller = self.deployment.start(command)


def _measured(count: int, seconds: float, *, polls: bool) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        side = WebSide(Path(folder))
        try:
            side.start()
            stage = {"kind": "motion", "models": [], "parameters": {}}
            side.http.put("/api/v2/video/stages/moving", json=stage).raise_for_status()
            side.deployment.until_quiet()
            return asyncio.run(_run(side, count, seconds, polls=polls))
        finally:
            side.close()


async def _run(side: WebSide, count: int, seconds: float, *, polls: bool) -> Cost:
    assert side.web_process is not None and side.controller is not None
    web, control = side.web_process.pid, side.controller.pid
    before_bytes, before_s = _pss(web), _cpu(web) + _cpu(control)
    agents = [SimulatedAgent(side.deployment.url, number, polls=polls) for number in range(count)]
    tasks = []
    for agent in agents:
        tasks.append(asyncio.create_task(agent.link.run()))
        await asyncio.sleep(0.05)
    await _at_rest(agents)
    join_cpu_s = _cpu(web) + _cpu(control) - before_s
    beats, web_s, control_s, idle_began = _beats(agents), _cpu(web), _cpu(control), time.monotonic()
    await asyncio.sleep(seconds)
    minutes = (time.monotonic() - idle_began) / 60
    cost = Cost(
        count,
        polls,
        join_cpu_s,
        sum(agent.order_count for agent in agents),
        sum(agent.order_bytes for agent in agents),
        (_cpu(web) - web_s) / minutes,
        (_cpu(control) - control_s) / minutes,
        (_pss(web) - before_bytes) / count,
        (_beats(agents) - beats) / minutes,
    )
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for agent in agents:
        await agent.web.close()
    return cost


async def _at_rest(agents: Sequence[SimulatedAgent]) -> None:
    """Until all are connected, and none has had an order for a while."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < AT_REST_S:
        await asyncio.sleep(1)
        now_seen = sum(agent.order_count for agent in agents)
        if now_seen != seen or not all(agent.link.is_connected for agent in agents):
            seen, since = now_seen, time.monotonic()


def _beats(agents: Sequence[SimulatedAgent]) -> int:
    return sum(agent.heartbeats for agent in agents)


def _tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _cpu(pid: int) -> float:
    """Seconds of a program with its processes."""
    return sum(sum(process.cpu_times()[:2]) for process in _tree(pid))


def _pss(pid: int) -> float:
    return sum(float(process.memory_full_info().pss) for process in _tree(pid))
