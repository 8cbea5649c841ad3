"""One worker of one order: its process is started, watched, restarted, replaced and ended, in one task.

A fault of one worker never delays or ends another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from app.edge.agent import worker_status
from app.edge.agent.allocation import NodeContext, WorkerPlan
from app.edge.agent.backoff import FailureCounter
from app.edge.agent.blobs import FileUnavailable
from app.edge.agent.driver import WorkloadDriver, WorkRefused
from app.edge.agent.health import ASK_TIMEOUT_S, HealthProbe
from app.edge.agent.process import WorkerProcess
from app.edge.agent.worker_status import ENDED, WorkerStatus
from app.kit import clock
from app.kit.backoff import GrowingPause
from app.kit.cli.command import Unreachable
from app.kit.network.addresses import reachable_host
from app.nodes.model import Operation, Order, WorkerState

LIVED_S = 2.0
"""Seconds that a worker without a probe has to live to count as running."""
ASK_PAUSE = GrowingPause(0.1, 1.0, growth=1.5)
Result = TypeVar("Result")
logger = logging.getLogger(__name__)


class Worker:
    """Runs one order until it is deleted.

    Args:
        driver: of its workload; None: this agent has none for it.
        health: for asking the process how it is.
        on_change: called whenever its status has changed.

    Attributes:
        status: what is known of the worker, including its newest order and its process.
    """

    def __init__(
        self,
        order: Order,
        driver: WorkloadDriver | None,
        context: NodeContext,
        health: HealthProbe,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self.status = WorkerStatus(order, driver, context, on_change)
        self._driver = driver
        self._context = context
        self._health = health
        self._changed = asyncio.Event()
        self._ends = FailureCounter()
        self._started = time.monotonic()

    # for the supervisor
    @property
    def order(self) -> Order:
        return self.status.order

    def change(self, order: Order) -> None:
        self.status.order = order
        self._changed.set()

    def note_status(self, *, is_running: bool, detail: Mapping[str, Any]) -> None:
        self.status.add_detail(detail)
        if is_running and self.status.is_current:
            self.status.mark_running()

    def detach(self) -> None:
        """Stops watching because the agent ends; the process continues."""
        if self.status.process is not None:
            self.status.process.detach()

    async def end(self) -> None:
        """Ends the process, if there is one."""
        if self.status.process is not None:
            await self.status.process.end()
            self.status.mark_stopped()

    # life cycle
    async def run(self) -> None:
        """Run until the order is deleted and its files are removed."""
        while True:
            self._changed.clear()
            try:
                if self.order.operation is Operation.DELETE:
                    await self._delete()
                    return
                await self._run_order(self.order)
            except Exception as error:  # a capability's code; the other workers go on
                logger.exception("Something unforeseen with worker %s of %s", self.status.name, self.order.name)
                self.status.mark_failed("InternalError", f"{type(error).__name__}: {error}")
                await self._pause_after_refusal()

    async def _run_order(self, order: Order) -> None:
        """Run an order until its process ends or the next order arrives."""
        if self.status.process is None and self.status.record.generation != order.generation:
            self.status.update(
                state=WorkerState.STARTING, reason="", message="", exit_code=None, generation=order.generation
            )
        try:
            plan = await self._run_unless_changed(self._plan(order))
            if plan is not None:
                await self._bring_up(plan)
        except WorkRefused as refused:
            await self.end()
            self.status.mark_failed(refused.reason, f"{refused.message} {refused.hint}".strip())
            await self._pause_after_refusal()
        except FileUnavailable as error:
            self.status.mark_failed(error.reason, error.message)
            await self._pause_after_refusal()
        except Unreachable as error:
            self.status.update(message=error.message)
            await self._pause_after_refusal()
        else:
            if plan is not None and self.status.process is not None:
                await self._watch(plan, self.status.process)

    async def _plan(self, order: Order) -> WorkerPlan:
        if self._driver is None:
            raise WorkRefused(f"This node does not know {order.key.kind}.", reason="UnknownKind")
        record = self.status.record.port
        port = record if record and self.status.is_running else self._context.port(record)
        if port != record:
            self.status.update(port=port)
        return await self._context.plan(order, self._driver, port=port)

    async def _bring_up(self, plan: WorkerPlan) -> None:
        """Starts the process, unless it runs only once and already has."""
        status = self.status
        if status.record.digest != plan.digest:
            await self.end()
            self._ends = FailureCounter()
            status.replace_program(plan)
        elif status.record.pid and status.process is None:
            self._note_end(plan, None)  # it ended while no agent was running
        status.set_plan(plan)
        if status.process is not None:
            return
        if not plan.program.restarts and status.record.reason == ENDED:
            await self._changed.wait()
            return
        self._start(plan)

    def _start(self, plan: WorkerPlan) -> None:
        """Starts the process.

        Raises:
            WorkRefused: It cannot be started.
        """
        self.status.begin_log()
        environment = {**self._context.environment, **plan.program.environment}
        try:
            process = WorkerProcess.start(plan.program.command, environment, folder=plan.folder, log=self.status.log)
        except (OSError, ValueError) as error:
            name = self.status.name
            raise WorkRefused(f"{name} could not be started: {error}", reason="CannotStart") from error
        self._started = time.monotonic()
        self.status.mark_started(process, at=clock.to_text(clock.now()), is_again=bool(self._ends.times))

    async def _watch(self, plan: WorkerPlan, process: WorkerProcess) -> None:
        """Waits until it ends or another order arrives."""
        health = asyncio.create_task(self._await_health(plan))
        changed = asyncio.create_task(self._changed.wait())
        futures: set[asyncio.Future[Any]] = {process.ended, changed}
        try:
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (health, changed):
                task.cancel()
            await asyncio.gather(health, changed, return_exceptions=True)
        if not process.ended.done():
            return
        self._note_end(plan, process.ended.result())
        if plan.program.restarts:
            await self._pause(self._ends.pause_s)

    async def _await_health(self, plan: WorkerPlan) -> None:
        if self.status.record.state is WorkerState.RUNNING:
            return
        if plan.program.health_url or plan.program.listens:
            pause_s = 0.0
            while not await self._is_healthy(plan):
                pause_s = ASK_PAUSE.after(pause_s)
                await asyncio.sleep(pause_s)
        else:
            await asyncio.sleep(LIVED_S)
        self.status.mark_running()

    async def _is_healthy(self, plan: WorkerPlan) -> bool:
        url = plan.program.health_url
        if not url:
            return await _accepts_connections(self._context.bind, plan.port)
        return await self._health.is_healthy(url)

    def _note_end(self, plan: WorkerPlan, code: int | None) -> None:
        self._ends = self._ends.after(started=self._started, now=time.monotonic())
        self.status.mark_ended(code, self._ends, restarts=plan.program.restarts)

    async def _delete(self) -> None:
        await self.end()
        await asyncio.to_thread(shutil.rmtree, self._context.folder(self.order.key), ignore_errors=True)
        worker_status.delete(self.status.log)

    # waiting
    async def _pause_after_refusal(self) -> None:
        self._ends = self._ends.after_refusal()
        await self._pause(self._ends.pause_s)

    async def _pause(self, seconds: float) -> None:
        """Waits, at most until another order arrives."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _run_unless_changed(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """Returns the result of the work; None if another order made it pointless."""
        task, changed = asyncio.create_task(work), asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({task, changed}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            changed.cancel()
            await asyncio.gather(task, changed, return_exceptions=True)


async def _accepts_connections(bind: str, port: int) -> bool:
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            _, writer = await asyncio.open_connection(reachable_host(bind), port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
