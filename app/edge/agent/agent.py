"""The agent of one node: its parts assembled, from start to shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from app.edge.agent.allocation import NodeContext, environment_for_workers
from app.edge.agent.blobs import BlobCache
from app.edge.agent.camera_discovery import CameraDiscovery
from app.edge.agent.cameras import Cameras
from app.edge.agent.certificates import NodeCertificate
from app.edge.agent.driver import Reply, WorkloadDriver
from app.edge.agent.host_metrics import host_report, kinds_of_processes
from app.edge.agent.link import WebLink
from app.edge.agent.options import AgentOptions
from app.edge.agent.outbox import Outbox
from app.edge.agent.registration import join
from app.edge.agent.server import AgentServer, build_application
from app.edge.agent.sinks import NodeSinks
from app.edge.agent.store import AgentStore
from app.edge.agent.supervisor import WorkerSupervisor
from app.edge.agent.web_client import WebClient, agent_version
from app.edge.cpu_use import CpuUse
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import Unreachable
from app.kit.errors import BadRequest
from app.kit.network.addresses import host_and_port, reachable_url
from app.nodes import wire
from app.nodes.cameras import CAMERAS
from app.nodes.cameras import KEY as CAMERAS_KEY
from app.nodes.model import NODE_REPORT, NodeReport, Operation, Order, WorkerReport, WorkKey
from app.results.model.sink import NODE_SINKS

JOIN_S = 10.0
MEANWHILE = "It is tried again and again; what is known here is run meanwhile."
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MOST_REPORT_BYTES = wire.MAX_UP_BYTES * 3 // 4 - 10_000
"""base64 turns three bytes into four."""
logger = logging.getLogger(__name__)


class NodeAgent:
    """The running agent. What drivers may use of it is the protocol `driver.Agent`."""

    def __init__(
        self,
        options: AgentOptions,
        drivers: Sequence[WorkloadDriver],
        cameras: Cameras,
        store: AgentStore,
        web: WebClient,
        listening: socket.socket,
    ) -> None:
        """Starts nothing yet.

        Args:
            drivers: of what may run on this node.
            store: what survives a restart.
            web: the connection to the control plane.
            listening: the socket of the agent's own server.
        """
        self.options = options
        self._cameras = cameras
        self.node = options.name
        self.store = store
        self.web = web
        self._listening = listening
        self._outbox = Outbox(store.reports, web, self._report_soon)
        self._sinks = NodeSinks(store.sinks, options.name, options.sink_networks, self._report_soon)
        self._worker_cpu = CpuUse(is_whole=False)
        self._certificate = NodeCertificate(options, web)
        self._link = WebLink(
            web,
            join=self.join,
            heartbeat=self._heartbeat,
            store_order=self.take,
            on_connected=self._outbox.wake,
            node=options.name,
        )
        self._discovery = CameraDiscovery(options.discover)
        self._drivers = drivers
        self._supervisor = WorkerSupervisor(self._context(), drivers, self._link.report_soon)
        routes = [route for driver in drivers for route in driver.routes(self)]
        self._server = AgentServer(build_application(routes, token=lambda: web.token, health=self._describe_health))

    # for drivers: driver.Agent
    async def take(self, order: Order) -> None:
        """Store an order and act on it.

        Raises:
            BadRequest: A name could lead out of the agent's folders.
        """
        key = order.key
        if not all(_SAFE.fullmatch(name) for name in (key.kind, key.uid, key.part)):
            raise BadRequest(f"{key} is no key of a worker.")
        former = self.store.order(key)
        if key.kind == NODE_SINKS and order.seq > (former.seq if former else 0):
            self._sinks.apply(order)  # before it is stored: on a full disk, it comes again
        if self.store.put(order):
            stored = self.store.order(key)
            assert stored is not None
            if key.kind == CAMERAS:
                self._take_cameras(stored)
            elif key.kind == NODE_SINKS:
                if stored.operation is Operation.DELETE:
                    self.store.forget(stored)
                self._link.report_soon()
            else:
                self._supervisor.apply(stored)

    def _take_cameras(self, order: Order) -> None:
        """Applies the orders again: a job may continue with another source, or find that it has none."""
        self._cameras.replace_added(order.content)
        if order.operation is Operation.DELETE:
            self.store.forget(order)
        self._supervisor.apply_again()
        self._link.report_soon()

    def _take_certificate(self) -> None:
        self._supervisor.apply_again()
        self._link.report_soon()

    def find(self, kind: str, namespace: str, name: str) -> list[Order]:
        key = (kind, namespace, name)
        return [order for order in self._list_current_orders() if (order.key.kind, order.namespace, order.name) == key]

    @property
    def own_address(self) -> str:
        return host_and_port(self.options.agent_host, self._listening.getsockname()[1])

    def owner_of(self, kind: str, worker: str) -> Order | None:
        return self._supervisor.find(kind, worker)

    def reports(self, kind: str) -> list[WorkerReport]:
        return [report for report in self._supervisor.reports() if report.key.kind == kind]

    def sources_read(self) -> set[str]:
        return self._supervisor.sources()

    def note_status(self, key: WorkKey, *, is_running: bool, detail: Mapping[str, Any]) -> None:
        self._supervisor.note_status(key, is_running=is_running, detail=detail)

    def send(self, path: str, body: bytes, content_type: str, *, replaces: str = "", rows_of: str = "") -> None:
        """See `driver.Agent.send`. A worker whose report cannot be stored repeats it, which sinks notice."""
        try:
            self._sinks.add(rows_of, body)
        except sqlite3.Error as error:
            raise self._outbox.refuse(error) from error
        self._outbox.push(path, body, content_type, replaces=replaces)

    async def ask(self, path: str, body: bytes, content_type: str, *, authorization: str = "") -> Reply:
        """See `driver.Agent.ask`."""
        return await self.web.ask(path, body, content_type, authorization=authorization)

    # life cycle
    async def run(self) -> None:
        """Run until SIGTERM, or SIGINT, which also ends the workers.

        Raises:
            TokenRefused, NameTaken: At the start.
        """
        stop = _stop_signals()
        await self._join_first(stop)
        cameras = self.store.order(CAMERAS_KEY)
        self._cameras.replace_added(cameras.content if cameras else {})
        with suppress(TimeoutError):
            async with asyncio.timeout(JOIN_S if self.web.token else 0):
                await self._certificate.look()
        for order in filter(lambda order: order.key.kind == NODE_SINKS, self.store.orders()):
            self._sinks.apply(order)
        self._supervisor.start()
        self._discovery.start()
        logger.info(
            "Node %s answers at %s and keeps its things in %s.", self.node, self._build_agent_url(), self.options.data
        )
        services = (
            self._server.serve([self._listening]),
            self._link.run(),
            self._outbox.run(),
            self._supervisor.look_at_logs(),
            self._certificate.run(self._take_certificate),
        )
        tasks = [asyncio.create_task(service) for service in services]
        futures: set[asyncio.Future[Any]] = {stop, *tasks}
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._shut_down(tasks, is_interrupted=stop.done() and stop.result() == signal.SIGINT)
        for task in tasks:  # if one of them ends by itself, it has failed, and so has the agent
            if task.done() and not task.cancelled():
                task.result()

    async def _join_first(self, stop: asyncio.Future[int]) -> None:
        """Wait at most JOIN_S, since workers run without the web, too.

        Raises:
            TokenRefused, NameTaken: The web refuses this node.
        """
        joining = asyncio.create_task(self.join())
        futures: set[asyncio.Future[Any]] = {stop, joining}
        await asyncio.wait(futures, timeout=JOIN_S, return_when=asyncio.FIRST_COMPLETED)
        joining.cancel()
        try:
            await joining
        except asyncio.CancelledError:
            if not stop.done():
                logger.warning("%s does not answer in time. %s", self.options.cloud, MEANWHILE)
        except (Unreachable, ApiError) as error:
            logger.warning("%s %s", error, MEANWHILE)
            self._link.mark_reported(error)

    async def join(self) -> None:
        former = self.web.token
        await join(self.web, self.options, self.store)
        if self.web.token != former:
            self._certificate.look_soon()

    async def _shut_down(self, tasks: list[asyncio.Task[None]], *, is_interrupted: bool) -> None:
        for task in tasks[1:]:
            task.cancel()
        self._discovery.close()
        self._sinks.close()
        ends_workers = is_interrupted or self.options.stops_workers
        await self._supervisor.stop(ends_workers=ends_workers)
        if ends_workers and self.web.token:
            with suppress(Unreachable, ApiError, TimeoutError):
                async with asyncio.timeout(2):
                    await self.web.report(self._heartbeat(False))
        self._server.should_exit = True
        await asyncio.gather(*tasks, return_exceptions=True)

    # reports
    def _report_soon(self) -> None:
        self._link.report_soon()

    def _heartbeat(self, with_orders: bool) -> wire.Heartbeat:
        seqs = {str(order.key): order.seq for order in self._list_current_orders()} if with_orders else None
        return wire.Heartbeat(agent_version(), self.options.address, self._report(), seqs)

    def _report(self) -> NodeReport:
        offers = {driver.kind: offer for driver in self._drivers if (offer := self._list_offers(driver))}
        workers, reports = self._supervisor.reports(), self.store.reports
        kinds = {worker.pid: worker.key.kind for worker in workers if worker.pid}
        report = replace(
            host_report(self.options.data),
            worker_cpu=self._worker_cpu.shares(kinds_of_processes(kinds)),
            offers=offers,
            workers=workers,
            sinks=self._sinks.reports(),
            order_problem=self._link.order_problem,
            report_problem=self._outbox.problem,
            delivery_problem=self._outbox.delivery_problem,
            lost_reports=reports.lost.count,
            lost_reports_at=reports.lost.last_at,
            refused_reports=reports.refused.count,
            refused_reports_at=reports.refused.last_at,
            refusal=reports.refusal,
            discovered=self._discovery.cameras,
            tls=self._certificate.report,
            provider=self.options.provider,
        )
        if len(wire.dump_frame(NODE_REPORT.write(report))) > _MOST_REPORT_BYTES:  # very many have failed at once
            report = replace(report, workers=tuple(replace(worker, log=()) for worker in report.workers))
        return report

    def _list_offers(self, driver: WorkloadDriver) -> Mapping[str, Any]:
        try:
            return driver.offers(self)
        except Exception:  # an error in a capability's code does not stop the node
            logger.exception("What this node offers of %s is not known", driver.kind)
            return {}

    def _describe_health(self) -> dict[str, object]:
        return {
            "status": "ok",
            "node": self.node,
            "is_connected": self._link.is_connected,
            "workers": [{"name": worker.name, "state": worker.state} for worker in self._supervisor.reports()],
        }

    def _list_current_orders(self) -> list[Order]:
        return [order for order in self.store.orders() if order.operation is not Operation.DELETE]

    def _build_agent_url(self) -> str:
        host, port = self._listening.getsockname()[:2]
        return reachable_url(host, port)

    def _context(self) -> NodeContext:
        data = self.options.data
        return NodeContext(
            node=self.node,
            bind=self.options.bind,
            address=self.options.address,
            data=data,
            store=self.store,
            agent_url=self._build_agent_url(),
            blobs=BlobCache(data / "blobs", self.web),
            scripts=self.options.scripts,
            environment=environment_for_workers(os.environ, self.options.passed),
            provider=self.options.provider,
            tls=lambda: self._certificate.tls,
        )


def _stop_signals() -> asyncio.Future[int]:
    """Returns a future that the first signal completes with its number."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[int] = loop.create_future()

    def note(number: int) -> None:
        if not stop.done():
            stop.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, note, number)
    return stop
