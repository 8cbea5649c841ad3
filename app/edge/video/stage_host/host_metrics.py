"""The load of the host and its machine, for the scheduler; and the speed of the network to the other hosts."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import psutil

from app.edge.cpu_use import CpuUse
from app.edge.video.stage_host.pool import StagePool
from app.kit.clock import now, to_text
from app.kit.network.tls import Credentials, tls_name
from app.kit.text.json_values import JsonObject
from app.video.model.job import StageHost

TICK_S = 5.0
WAY_EVERY_S = 60.0
PROBE_BYTES = 64 << 10
TIMEOUT_S = 10.0
MOST_MBPS = 100_000.0
logger = logging.getLogger(__name__)


class HostMetrics:
    """What the stage host measures of its node and of the links to its peers."""

    def __init__(self, pool: StagePool, keys: Callable[[], list[str]]) -> None:
        self._pool = pool
        self._keys = keys
        self.way: dict[str, JsonObject] = {}
        self._hosts: dict[str, str] = {}
        self._cpu = CpuUse(is_whole=True)

    def resources(self) -> JsonObject:
        """cpu_ratio, mem_ratio: share of the machine that the host and its processes use, nothing else."""
        return {
            "n_process": self._pool.processes,
            "cpu_ratio": round(self._measure_cpu_ratio(), 4),
            "mem_ratio": round(self._measure_mem_ratio(), 4),
            "queue": self._pool.waiting,
        }

    @property
    def _pids(self) -> tuple[int, ...]:
        return os.getpid(), *self._pool.pids

    def _measure_cpu_ratio(self) -> float:
        return self._cpu.shares(dict.fromkeys(self._pids, "host")).get("host", 0.0)

    def _measure_mem_ratio(self) -> float:
        used = 0
        for pid in self._pids:
            with suppress(psutil.Error):  # a child may end at any time
                used += psutil.Process(pid).memory_info().rss
        return used / float(psutil.virtual_memory().total)

    def detail(self) -> JsonObject:
        """stages: key → what runs it, empty until its first call."""
        stages = {key: self._pool.runtimes.get(key, "") for key in self._keys()}
        return {**self.resources(), "stages": stages, "way": self.way, "pids": self._pool.pids}

    def peers(self) -> JsonObject:
        return {node: {"url": url, **self.way.get(node, {})} for node, url in self._hosts.items()}

    def know(self, peers: tuple[StageHost, ...]) -> None:
        self._hosts = {peer.node: peer.url for peer in peers}
        self.way = {node: way for node, way in self.way.items() if node in self._hosts}


class MetricsReporter:
    """Reports to the agent every TICK_S; an agent that is unreachable gets the next report."""

    def __init__(self, metrics: HostMetrics, agent_url: str, node: str, tls: Credentials | None) -> None:
        """tls: of this node, for links to encrypted hosts."""
        self.metrics = metrics
        self.peers: tuple[StageHost, ...] = ()
        self._url = f"{agent_url.rstrip('/')}/video/services/info" if agent_url else ""
        self._node = node
        self._client = httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False, verify=tls.client if tls else True)
        self._measured_at: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_away = False

    def start(self) -> None:
        self._tasks = [asyncio.create_task(_repeat(step)) for step in (self._report, self._measure)]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()

    async def _report(self) -> None:
        if not self._url:
            return
        try:
            answer = await self._client.post(self._url, json={"key": self._node, "detail": self.metrics.detail()})
        except httpx.HTTPError as error:
            if not self._is_away:
                logger.warning("The agent at %s is away: %s", self._url, error or type(error).__name__)
            self._is_away = True
            return
        self._is_away = False
        if answer.is_error:
            logger.warning("The agent has refused the report: %s %s", answer.status_code, answer.text[:200])

    async def _measure(self) -> None:
        """The network to the other hosts; a change is reported at once."""
        before = dict(self.metrics.way)
        for peer in self.peers:
            moment = time.monotonic()
            if peer.node == self._node or moment - self._measured_at.get(peer.node, -WAY_EVERY_S) < WAY_EVERY_S:
                continue
            self._measured_at[peer.node] = moment
            with suppress(httpx.HTTPError):
                self.metrics.way[peer.node] = await way_to(self._client, peer)
        if before != self.metrics.way:
            await self._report()


async def way_to(client: httpx.AsyncClient, peer: StageHost) -> JsonObject:
    """Measures the link to another stage host, with 64 kB in each direction.

    Returns:
        {up_mbps, down_mbps, rtt_ms, at}: megabits a second, without the round-trip time of an empty request; that
        round-trip time in milliseconds; the time of the measurement.

    Raises:
        httpx.HTTPError: It cannot be reached, or refuses the request.
    """
    headers = {"Authorization": f"Bearer {peer.secret}"}
    url = f"{peer.url.rstrip('/')}/probe"
    name = {"sni_hostname": tls_name(peer.node)}
    (await client.post(url, content=b"", headers=headers, extensions=name)).raise_for_status()  # connects
    trip = await _measure_seconds(client, client.build_request("POST", url, headers=headers, extensions=name))
    body = bytes(PROBE_BYTES)
    up = await _measure_seconds(
        client, client.build_request("POST", url, content=body, headers=headers, extensions=name)
    )
    down = await _measure_seconds(client, client.build_request("GET", url, headers=headers, extensions=name))
    return {
        "up_mbps": _measure_mbps(up - trip),
        "down_mbps": _measure_mbps(down - trip),
        "rtt_ms": round(trip * 1000, 3),
        "at": to_text(now()),
    }


async def _measure_seconds(client: httpx.AsyncClient, request: httpx.Request) -> float:
    began = time.perf_counter()
    (await client.send(request)).raise_for_status()
    return time.perf_counter() - began


def _measure_mbps(seconds: float) -> float:
    return round(min(PROBE_BYTES * 8 / 1e6 / max(seconds, 1e-5), MOST_MBPS), 3)


async def _repeat(step: Callable[[], Any]) -> None:
    while True:
        try:
            await step()
        except Exception:  # a fault in one report must not stop the others
            logger.exception("A report has met a fault and goes on")
        await asyncio.sleep(TICK_S)
