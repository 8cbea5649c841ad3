"""The status of a worker: stored for the next agent and sent in reports; and its log files, which it writes itself, so
that they do not depend on the agent. Starts and ends nothing."""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import signal
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.edge.agent.allocation import NodeContext, WorkerPlan
from app.edge.agent.backoff import WITHIN_S, FailureCounter
from app.edge.agent.driver import WorkloadDriver
from app.edge.agent.process import WorkerProcess
from app.kit.files import make_private
from app.kit.network.addresses import host_and_port
from app.nodes.model import MAX_LOG_LINES, Order, WorkerReport, WorkerState

ENDED, CRASHING = "Ended", "CrashLoop"
logger = logging.getLogger(__name__)


class WorkerStatus:
    """The status of one worker. A process that an earlier agent started is adopted.

    Args:
        driver: of its workload; None: this agent has none for it.
        on_change: called whenever it has changed.

    Attributes:
        order: the newest.
        record: what is stored of the worker.
        process: running, or just ended; None: there is none.
        log: the worker's log file.
    """

    def __init__(
        self, order: Order, driver: WorkloadDriver | None, context: NodeContext, on_change: Callable[[], None]
    ) -> None:
        self.order = order
        self.record = context.store.worker(order.key)
        self.process = WorkerProcess.adopt(self.record.pid, self.record.identity) if self.record.pid else None
        if self.process is None and self.record.state is WorkerState.RUNNING:
            self.record = replace(self.record, state=WorkerState.STARTING)
        self.log = log_path(context.data / "logs", order)
        self._driver = driver
        self._context = context
        self._on_change = on_change
        self._log_start = 0
        self._log_lines: tuple[str, ...] = last_lines(self.log) if self.record.state is WorkerState.FAILED else ()
        self._detail: Mapping[str, Any] = {}
        self._last_report: WorkerReport | None = None
        self._is_current = False

    @property
    def name(self) -> str:
        """The name of the worker in its resource."""
        try:
            return self._driver.worker_name(self.order) if self._driver else self.order.name
        except Exception:  # noqa: BLE001  # a capability's code, about content that anybody may have written
            return self.order.name

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running

    @property
    def is_current(self) -> bool:
        """Whether a process of the newest order is running."""
        return self.is_running and self._is_current

    def report(self) -> WorkerReport:
        record, pid = self.record, self.process.pid if self.process is not None and self.is_running else 0
        return WorkerReport(
            key=self.order.key,
            namespace=self.order.namespace,
            owner_name=self.order.name,
            name=self.name,
            generation=record.generation,
            state=record.state,
            pid=pid,
            address=host_and_port(self._context.address, record.port) if pid and record.serves else "",
            restarts=record.restarts,
            exit_code=record.exit_code,
            reason=record.reason,
            message=record.message,
            log=self._log_lines,
            started_at=record.started_at,
            detail=self._detail,
            is_encrypted=record.is_encrypted,
            former_generation=record.runs if pid and not self._is_current else 0,
        )

    # changes
    def update(self, **changes: Any) -> None:
        """Changes fields of the record, stores and reports it. A full disk ends no worker, but the next agent then
        knows less."""
        record = replace(self.record, **changes)
        if record != self.record:
            self.record = record
            try:
                self._context.store.save_worker(self.order.key, record)
            except sqlite3.Error as error:
                logger.error("What becomes of worker %s could not be kept: %s", self.name, error)
        self._notify()

    def add_detail(self, detail: Mapping[str, Any]) -> None:
        self._detail = {**self._detail, **detail}
        self._notify()

    def replace_program(self, plan: WorkerPlan) -> None:
        """Starts over, since the order needs another program than the one that ran."""
        self._is_current = False
        self._log_lines, self._detail = (), {}
        self.update(
            digest=plan.digest,
            state=WorkerState.STARTING,
            exit_code=None,
            reason="",
            message="",
            pid=0,
            identity="",
            generation=plan.order.generation,
        )

    def set_plan(self, plan: WorkerPlan) -> None:
        """Notes that the running process, if any, is that of this plan."""
        self._is_current = True
        generation = plan.order.generation
        serves = bool(plan.program.health_url) or plan.program.listens
        is_encrypted = plan.program.is_encrypted
        self.update(serves=serves, is_encrypted=is_encrypted, generation=generation, runs=generation)

    def mark_started(self, process: WorkerProcess, *, at: str, is_again: bool) -> None:
        """Notes a started process. A FAILED worker stays FAILED until it is running."""
        self.process = process
        is_failed = self.record.state is WorkerState.FAILED
        self.update(
            pid=process.pid,
            identity=process.identity,
            started_at=at,
            restarts=self.record.restarts + is_again,
            state=WorkerState.FAILED if is_failed else WorkerState.STARTING,
        )

    def mark_stopped(self) -> None:
        """Notes that the agent has ended the process."""
        self.process = None
        is_running = self.record.state is WorkerState.RUNNING
        self.update(pid=0, identity="", state=WorkerState.STARTING if is_running else self.record.state)

    def mark_running(self) -> None:
        self._log_lines = ()
        self.update(state=WorkerState.RUNNING, reason="", message="")

    def mark_failed(self, reason: str, message: str) -> None:
        """Notes that the newest order failed. A process that still runs belongs to an earlier one."""
        self._is_current = False
        self.update(state=WorkerState.FAILED, reason=reason, message=message, generation=self.order.generation)

    def mark_ended(self, code: int | None, ends: FailureCounter, *, restarts: bool) -> None:
        """Notes that the process has ended.

        Args:
            code: its exit code; None if not visible.
            ends: counts the recent ends.
            restarts: it is started again.
        """
        self.process = None
        self._log_lines = last_lines(self.log, self._log_start)
        end = f"{self.name} {exit_text(code)}"
        if ends.are_too_many and restarts:
            end = (
                f"{self.name} ended {len(ends.times)} times within {WITHIN_S:.0f} s; the last time it {exit_text(code)}"
            )
        has_failed = ends.are_too_many or not restarts or self.record.state is WorkerState.FAILED
        reason = (CRASHING if restarts else ENDED) if has_failed else ""
        logger.warning("%s of %s.", end, self.order.name)
        self.update(
            state=WorkerState.FAILED if has_failed else WorkerState.BACKOFF,
            reason=reason,
            message=f"{end}.",
            exit_code=code,
            pid=0,
            identity="",
        )

    # log
    def begin_log(self) -> None:
        self.rotate_log()
        self._log_start = size_of(self.log)

    def rotate_log(self) -> None:
        if rotate(self.log):
            self._log_start = 0

    def _notify(self) -> None:
        report = self.report()
        if report != self._last_report:
            self._last_report = report
            self._on_change()


def exit_text(code: int | None) -> str:
    """Says how a process ended, as the second half of a sentence.

    Args:
        code: its exit code, negative for a signal; None if it was not observed.
    """
    if code is None:
        return "ended, and nobody saw its exit code"
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


MOST_BYTES = 5 << 20
LINE_LENGTH = 300
TAIL_BYTES = 64 << 10
_BLANK = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]+")


def log_path(folder: Path, order: Order) -> Path:
    """Returns the log file of a worker. The id in its name distinguishes services with the same name, which may belong
    to different users."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{order.key.part}-{order.name}-{order.key.uid[:8]}")
    return make_private(folder) / f"{name}.log"


def size_of(log: Path) -> int:
    """Returns the size of a log in bytes; 0 if it does not exist."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def rotate(log: Path) -> bool:
    """Copy and truncate a long log; its process appends, and so continues at the beginning.

    Returns whether it was truncated.
    """
    if size_of(log) <= MOST_BYTES:
        return False
    with contextlib.suppress(OSError):  # the disk is full: truncate without a copy
        shutil.copyfile(log, log.with_name(log.name + ".1"))
    with log.open("r+b") as file:
        file.truncate(0)
    return True


def last_lines(log: Path, start: int = 0) -> tuple[str, ...]:
    """Returns the last lines written after byte `start`; if the log was rotated since, after its beginning."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(start if start <= size else 0, size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    lines = [_BLANK.sub(" ", line).rstrip()[:LINE_LENGTH] for line in text.splitlines()]
    return tuple([line for line in lines if line][-MAX_LOG_LINES:])


def delete(log: Path) -> None:
    for file in (log, log.with_name(log.name + ".1")):
        file.unlink(missing_ok=True)
