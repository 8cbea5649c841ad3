"""All workers of a node: one Worker for each stored order. Deletes files that no order needs anymore."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from app.edge.agent.allocation import NodeContext
from app.edge.agent.driver import WorkloadDriver, WorkRefused
from app.edge.agent.health import HealthProbe
from app.edge.agent.worker import Worker
from app.nodes.cameras import CAMERAS
from app.nodes.model import Operation, Order, WorkerReport, WorkKey
from app.results.model.sink import NODE_SINKS

LOOK_AT_LOGS_S = 10.0
TIDY_S = 0.5
"""Seconds after the last of several changes until unneeded files are deleted."""
logger = logging.getLogger(__name__)


class WorkerSupervisor:
    """The workers of one agent, for the event loop in which it was created."""

    def __init__(self, context: NodeContext, drivers: Sequence[WorkloadDriver], on_change: Callable[[], None]) -> None:
        self._context = context
        self._drivers = {driver.kind: driver for driver in drivers}
        self._on_change = on_change
        self._health = HealthProbe(context.node, context.tls)
        self._workers: dict[WorkKey, Worker] = {}
        self._tasks: dict[WorkKey, asyncio.Task[None]] = {}
        self._tidying: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Starts all stored orders; processes that still run are adopted."""
        for order in self._context.store.orders():
            if order.key.kind not in (CAMERAS, NODE_SINKS):
                self.apply(order)
        self._tidy_soon()

    def apply(self, order: Order) -> None:
        """Carry out a stored order."""
        worker = self._workers.get(order.key)
        if worker is not None:
            worker.change(order)
            self._tidy_soon()
            return
        driver = self._drivers.get(order.key.kind)
        worker = Worker(order, driver, self._context, self._health, on_change=self._on_change)
        self._workers[order.key] = worker
        self._tasks[order.key] = asyncio.create_task(self._live(worker), name=f"worker {order.key}")

    def apply_again(self) -> None:
        """Carries out all orders again, since the cameras have changed."""
        for worker in self._workers.values():
            worker.change(worker.order)

    def reports(self) -> tuple[WorkerReport, ...]:
        return tuple(worker.status.report() for worker in self._workers.values())

    def find(self, kind: str, worker_name: str) -> Order | None:
        """Returns the order whose worker has this name."""
        orders = (
            worker.order
            for worker in self._workers.values()
            if worker.order.key.kind == kind and worker.status.name == worker_name
        )
        return next((order for order in orders if order.operation is not Operation.DELETE), None)

    def sources(self) -> set[str]:
        """Returns the sources that the workers read; also of one that is about to, or tries again."""
        read = set[str]()
        for order in (worker.order for worker in self._workers.values()):
            driver = self._drivers.get(order.key.kind)
            if driver is not None and order.operation is not Operation.DELETE:
                with suppress(WorkRefused):
                    read.update(driver.sources(order))
        return read

    def note_status(self, key: WorkKey, *, is_running: bool, detail: Mapping[str, Any]) -> None:
        worker = self._workers.get(key)
        if worker is not None:
            worker.note_status(is_running=is_running, detail=detail)

    async def look_at_logs(self) -> None:
        """Rotate long logs, forever."""
        while True:
            await asyncio.sleep(LOOK_AT_LOGS_S)
            for worker in list(self._workers.values()):
                try:
                    worker.status.rotate_log()
                except OSError as error:
                    logger.warning("The log of worker %s cannot be shortened: %s", worker.status.name, error)

    async def stop(self, *, ends_workers: bool) -> None:
        """Stop watching the processes.

        Args:
            ends_workers: end all processes as well.
        """
        if self._tidying is not None:
            self._tidying.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if ends_workers:
            await asyncio.gather(*(worker.end() for worker in self._workers.values()))
        for worker in self._workers.values():
            worker.detach()
        await self._health.close()

    async def _live(self, worker: Worker) -> None:
        await worker.run()
        key, order = worker.order.key, worker.order
        del self._workers[key], self._tasks[key]
        if order.operation is Operation.DELETE:
            try:
                self._context.store.forget(order)
            except sqlite3.Error as error:  # the next agent repeats the deletion
                logger.error("That worker %s is gone could not be kept: %s", worker.status.name, error)
            self._tidy_soon()
        else:  # it was ordered again during its deletion
            self.apply(order)
        self._on_change()

    def _tidy_soon(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
        self._tidying = asyncio.get_running_loop().call_later(TIDY_S, self._delete_unneeded_blobs)

    def _delete_unneeded_blobs(self) -> None:
        needed = set[str]()
        for order in self._context.store.orders():
            driver = self._drivers.get(order.key.kind)
            try:
                needed |= {blob.sha256 for blob in driver.blobs(order)} if driver else set()
            except Exception:  # noqa: BLE001  # a capability's code; then no file is deleted
                return
        self._context.blobs.keep_only(needed)
