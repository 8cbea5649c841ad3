"""What is known of a worker and told of it: kept for the next agent, shown in reports. Starts and ends nothing."""

from __future__ import annotations

import contextlib
import logging
import signal
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from app.edge.agent import logs
from app.edge.agent.allocation import NodeContext, Plan
from app.edge.agent.backoff import WITHIN_S, FailureCounter
from app.edge.agent.driver import WorkloadDriver
from app.edge.agent.process import Process
from app.nodes.model import Order, WorkerReport, WorkerState

ENDED, CRASHING = "Ended", "CrashLoop"
logger = logging.getLogger(__name__)


class WorkerStatus:
    """order: the newest. process: that runs now, or has just ended; what an
    agent before this one has started is adopted. on_change: what is reported has changed."""

    def __init__(
        self, order: Order, carrier: WorkloadDriver | None, ground: NodeContext, on_change: Callable[[], None]
    ) -> None:
        self.order = order
        self.kept = ground.store.kept(order.key)
        self.process = Process.adopt(self.kept.pid, self.kept.identity) if self.kept.pid else None
        if self.process is None and self.kept.state is WorkerState.RUNNING:
            self.kept = replace(self.kept, state=WorkerState.STARTING)
        self.log = logs.log_of(ground.data / "logs", order)
        self._carrier = carrier
        self._ground = ground
        self._on_change = on_change
        self._log_start = 0
        self._log_lines: tuple[str, ...] = logs.last_lines(self.log) if self.kept.state is WorkerState.FAILED else ()
        self._detail: Mapping[str, Any] = {}
        self._seen: WorkerReport | None = None
        self._is_current = False

    @property
    def name(self) -> str:
        """As its resource calls it."""
        try:
            return self._carrier.worker_name(self.order) if self._carrier else self.order.name
        except Exception:  # noqa: BLE001  # a capability's code, about content that anybody may have written
            return self.order.name

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running

    @property
    def is_current(self) -> bool:
        """Is the process that runs of the newest order, as far as is known?"""
        return self.is_running and self._is_current

    def report(self) -> WorkerReport:
        kept, pid = self.kept, self.process.pid if self.process is not None and self.is_running else 0
        return WorkerReport(
            key=self.order.key,
            namespace=self.order.namespace,
            owner_name=self.order.name,
            name=self.name,
            generation=kept.generation,
            state=kept.state,
            pid=pid,
            address=f"{self._ground.address}:{kept.port}" if pid and kept.serves else "",
            restarts=kept.restarts,
            exit_code=kept.exit_code,
            reason=kept.reason,
            message=kept.message,
            log=self._log_lines,
            started_at=kept.started_at,
            detail=self._detail,
            former_generation=kept.runs if pid and not self._is_current else 0,
        )

    # what becomes of it
    def say(self, **changes: Any) -> None:
        """changes: of Kept. A disk that is full ends no worker; the next agent then knows less of it."""
        kept = replace(self.kept, **changes)
        if kept != self.kept:
            self.kept = kept
            try:
                self._ground.store.keep(self.order.key, kept)
            except sqlite3.Error as error:
                logger.error("What becomes of worker %s could not be kept: %s", self.name, error)
        self._show()

    def hears(self, detail: Mapping[str, Any]) -> None:
        self._detail = {**self._detail, **detail}
        self._show()

    def is_other(self, plan: Plan) -> None:
        """Whatever was is that of another program."""
        self._is_current = False
        self._log_lines, self._detail = (), {}
        self.say(
            digest=plan.digest,
            state=WorkerState.STARTING,
            exit_code=None,
            reason="",
            message="",
            pid=0,
            identity="",
            generation=plan.order.generation,
        )

    def is_planned(self, plan: Plan) -> None:
        """What runs, if something does, is this."""
        self._is_current = True
        generation = plan.order.generation
        self.say(serves=bool(plan.program.health_url) or plan.program.listens, generation=generation, runs=generation)

    def is_started(self, process: Process, *, at: str, is_again: bool) -> None:
        """A failed one stays that until it runs."""
        self.process = process
        is_failed = self.kept.state is WorkerState.FAILED
        self.say(
            pid=process.pid,
            identity=process.identity,
            started_at=at,
            restarts=self.kept.restarts + is_again,
            state=WorkerState.FAILED if is_failed else WorkerState.STARTING,
        )

    def is_ended(self) -> None:
        """Because we wanted it."""
        self.process = None
        is_running = self.kept.state is WorkerState.RUNNING
        self.say(pid=0, identity="", state=WorkerState.STARTING if is_running else self.kept.state)

    def runs(self) -> None:
        self._log_lines = ()
        self.say(state=WorkerState.RUNNING, reason="", message="")

    def fails(self, reason: str, message: str) -> None:
        """A process that runs all the same is that of before."""
        self._is_current = False
        self.say(state=WorkerState.FAILED, reason=reason, message=message, generation=self.order.generation)

    def has_ended(self, code: int | None, ends: FailureCounter, *, restarts: bool) -> None:
        self.process = None
        self._log_lines = logs.last_lines(self.log, self._log_start)
        end = f"{self.name} {words(code)}"
        if ends.are_too_many and restarts:
            end = f"{self.name} ended {len(ends.times)} times within {WITHIN_S:.0f} s; the last time it {words(code)}"
        has_failed = ends.are_too_many or not restarts or self.kept.state is WorkerState.FAILED
        reason = (CRASHING if restarts else ENDED) if has_failed else ""
        logger.warning("%s of %s.", end, self.order.name)
        self.say(
            state=WorkerState.FAILED if has_failed else WorkerState.BACKOFF,
            reason=reason,
            message=f"{end}.",
            exit_code=code,
            pid=0,
            identity="",
        )

    # its log
    def begin_log(self) -> None:
        self.rotate_log()
        self._log_start = logs.size_of(self.log)

    def rotate_log(self) -> None:
        if logs.rotate(self.log):
            self._log_start = 0

    def _show(self) -> None:
        seen = self.report()
        if seen != self._seen:
            self._seen = seen
            self._on_change()


def words(code: int | None) -> str:
    if code is None:
        return "ended, and nobody saw its exit code"
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
