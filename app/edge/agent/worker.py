"""One worker of one order: its process is started, watched, started again, replaced and ended, in one task.

Whatever happens to it stays here: no other worker waits for it or ends by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import httpx

from app.edge.agent import logs
from app.edge.agent.allocation import NodeContext, Plan
from app.edge.agent.backoff import FailureCounter
from app.edge.agent.driver import WorkloadDriver, WorkRefused
from app.edge.agent.errors import NotNow
from app.edge.agent.process import Process
from app.edge.agent.worker_status import ENDED, WorkerStatus
from app.kit import clock
from app.kit.cli.command import Unreachable
from app.kit.network.addresses import reachable_host
from app.nodes.model import Operation, Order, WorkerState

LIVED_S = 2.0
"""So long a worker that cannot be asked must have lived to be running."""
FIRST_ASK_S, LONGEST_ASK_S = 0.1, 1.0
ASK_TIMEOUT_S = 2.0
OK = 200
Result = TypeVar("Result")
logger = logging.getLogger(__name__)


class Worker:
    """account: what is known of it, its newest order and its process among that."""

    def __init__(
        self,
        order: Order,
        carrier: WorkloadDriver | None,
        ground: NodeContext,
        http: httpx.AsyncClient,
        *,
        on_change: Callable[[], None],
    ) -> None:
        self.account = WorkerStatus(order, carrier, ground, on_change)
        self._carrier = carrier
        self._ground = ground
        self._http = http
        self._changed = asyncio.Event()
        self._ends = FailureCounter()
        self._started = time.monotonic()

    # what others ask of it
    @property
    def order(self) -> Order:
        return self.account.order

    def change(self, order: Order) -> None:
        self.account.order = order
        self._changed.set()

    def heard(self, *, is_running: bool, detail: Mapping[str, Any]) -> None:
        self.account.hears(detail)
        if is_running and self.account.is_current:
            self.account.runs()

    def leave(self) -> None:
        """The agent ends; the process does not."""
        if self.account.process is not None:
            self.account.process.leave()

    async def end(self) -> None:
        """The agent ends, or the order is another: the process ends."""
        if self.account.process is not None:
            await self.account.process.end()
            self.account.is_ended()

    # its life
    async def run(self) -> None:
        """Until it is deleted, and all that it had is gone."""
        while True:
            self._changed.clear()
            try:
                if self.order.operation is Operation.DELETE:
                    await self._delete()
                    return
                await self._step(self.order)
            except Exception as error:
                logger.exception("Something unforeseen with worker %s of %s", self.account.name, self.order.name)
                self.account.fails("InternalError", f"{type(error).__name__}: {error}")
                await self._pause_after_refusal()

    async def _step(self, order: Order) -> None:
        """From an order to the end of its process, or to the next order."""
        if self.account.process is None and self.account.kept.generation != order.generation:
            self.account.say(
                state=WorkerState.STARTING, reason="", message="", exit_code=None, generation=order.generation
            )
        try:
            plan = await self._unless_changed(self._plan(order))
            if plan is not None:
                await self._bring_up(plan)
        except WorkRefused as refused:
            await self.end()
            self.account.fails(refused.reason, f"{refused.message} {refused.hint}".strip())
            await self._pause_after_refusal()
        except NotNow as error:
            self.account.fails(error.reason, error.message)
            await self._pause_after_refusal()
        except Unreachable as error:
            self.account.say(message=error.message)
            await self._pause_after_refusal()
        else:
            if plan is not None and self.account.process is not None:
                await self._watch(plan, self.account.process)

    async def _plan(self, order: Order) -> Plan:
        if self._carrier is None:
            raise WorkRefused(f"This node does not know {order.key.kind}.", reason="UnknownKind")
        kept = self.account.kept.port
        port = kept if kept and self.account.is_running else self._ground.port(kept)
        if port != kept:
            self.account.say(port=port)
        return await self._ground.plan(order, self._carrier, port=port)

    async def _bring_up(self, plan: Plan) -> None:
        """Afterwards its process runs; or it does not, because it is to run only once and has."""
        account = self.account
        if account.kept.digest != plan.digest:
            await self.end()
            self._ends = FailureCounter()
            account.is_other(plan)
        elif account.kept.pid and account.process is None:
            self._note_end(plan, None)  # while no agent was there
        account.is_planned(plan)
        if account.process is not None:
            return
        if not plan.program.restarts and account.kept.reason == ENDED:
            await self._changed.wait()
            return
        self._start(plan)

    def _start(self, plan: Plan) -> None:
        """Raises WorkRefused for what cannot be started."""
        self.account.begin_log()
        environment = {**self._ground.environment, **plan.program.environment}
        try:
            process = Process.start(plan.program.command, environment, folder=plan.folder, log=self.account.log)
        except (OSError, ValueError) as error:
            name = self.account.name
            raise WorkRefused(f"{name} could not be started: {error}", reason="CannotStart") from error
        self._started = time.monotonic()
        self.account.is_started(process, at=clock.to_text(clock.now()), is_again=bool(self._ends.times))

    async def _watch(self, plan: Plan, process: Process) -> None:
        """Until it ends or there is another order."""
        health = asyncio.create_task(self._until_healthy(plan))
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

    async def _until_healthy(self, plan: Plan) -> None:
        if self.account.kept.state is WorkerState.RUNNING:
            return
        if plan.program.health_url or plan.program.listens:
            pause_s = FIRST_ASK_S
            while not await self._is_healthy(plan):
                await asyncio.sleep(pause_s)
                pause_s = min(LONGEST_ASK_S, pause_s * 1.5)
        else:
            await asyncio.sleep(LIVED_S)
        self.account.runs()

    async def _is_healthy(self, plan: Plan) -> bool:
        url = plan.program.health_url
        if not url:
            return await _takes_connections(self._ground.bind, plan.port)
        try:
            return (await self._http.get(url, timeout=ASK_TIMEOUT_S)).status_code == OK
        except (httpx.HTTPError, httpx.InvalidURL):
            return False

    def _note_end(self, plan: Plan, code: int | None) -> None:
        self._ends = self._ends.after(started=self._started, now=time.monotonic())
        self.account.has_ended(code, self._ends, restarts=plan.program.restarts)

    async def _delete(self) -> None:
        await self.end()
        await asyncio.to_thread(shutil.rmtree, self._ground.folder(self.order.key), ignore_errors=True)
        logs.delete(self.account.log)

    # waiting
    async def _pause_after_refusal(self) -> None:
        self._ends = self._ends.after_refusal()
        await self._pause(self._ends.pause_s)

    async def _pause(self, seconds: float) -> None:
        """Or until there is another order."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _unless_changed(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """None when there is another order, which makes this work idle."""
        task, changed = asyncio.create_task(work), asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait({task, changed}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            changed.cancel()
            await asyncio.gather(task, changed, return_exceptions=True)


async def _takes_connections(bind: str, port: int) -> bool:
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            _, writer = await asyncio.open_connection(reachable_host(bind), port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
