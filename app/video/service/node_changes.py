"""The effect of changes of nodes on a job. Pure, except for JobChange.apply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.kit.clock import from_text
from app.nodes.model import OFFLINE_AFTER_S, Node, WorkerState, WorkKey
from app.video import store
from app.video.model.job import CANNOT_RUN, JOBS, UNCHANGED, JobState, VideoJob
from app.video.service.orders import can_run, job_key
from app.video.service.reports import NODE_FLAGS, NODE_FULL, OFFLINE, UNDELIVERED
from app.video.service.resources import host_key
from app.video.store import StoredJob


@dataclass(frozen=True)
class NodeSnapshot:
    """The parts of a node's reports that matter to jobs."""

    last_seen_at: str
    host: tuple[Any, ...]
    """Of its stage host and its videos; only for comparison."""
    runners: Mapping[WorkKey, tuple[str, str, int]]
    """key → (state, address, generation of the process of a former order)"""

    @staticmethod
    def of(node: Node) -> NodeSnapshot:
        host, offer = node.worker(host_key(node.name)), node.report.offers.get(JOBS)
        stages = host.detail.get("stages") if host else None
        served = sorted(map(str, stages)) if isinstance(stages, Mapping) else []
        runners = {
            worker.key: (worker.state.value, worker.address, worker.former_generation)
            for worker in node.report.workers
            if worker.key.kind == JOBS
        }
        of_host = (host.state, host.address, served) if host else ()
        return NodeSnapshot(
            node.last_seen_at or "",
            (node.address, node.side, str(offer), *node.report.storage_problems, *of_host),
            runners,
        )

    def differs_for(self, key: WorkKey, before: NodeSnapshot | None) -> bool:
        """Whether anything is new about this runner."""
        return before is None or before.runners.get(key) != self.runners.get(key)

    def has_other_hosts(self, before: NodeSnapshot | None) -> bool:
        """Whether anything is new about where stages are served. Also if nothing has been reported since, so that the
        node may be silent, or if it was silent before this report."""
        if before is None or before.host != self.host or before.last_seen_at == self.last_seen_at:
            return True
        if not before.last_seen_at or not self.last_seen_at:
            return True
        silent_s = (from_text(self.last_seen_at) - from_text(before.last_seen_at)).total_seconds()
        return silent_s >= OFFLINE_AFTER_S


@dataclass(frozen=True)
class JobChange:
    """A change to be written into a job."""

    message: str
    """Of the event."""
    type: str = "Note"
    """Of the event."""
    state: JobState | None = None
    """The new state, if any."""
    flags: frozenset[str] | None = None
    """Its flags from now on; None: unchanged."""
    runner_trouble: str | None = None
    """That of its runner from now on; None: unchanged."""
    cannot_run: bool = False

    def apply(self, conn: Connection, stored: StoredJob, at: str) -> None:
        if self.state is not None:
            store.enter(conn, stored, self.state, at=at, message=self.message)
            return
        if self.flags is not None:
            reasons = dict.fromkeys(NODE_FLAGS, self.message)
            store.change_flags(conn, stored.job, self.flags, at=at, reasons=reasons)
        if self.runner_trouble is not None:
            trouble = {"runner_trouble": self.runner_trouble, "cannot_run": self.cannot_run}
            store.change(conn, stored.job.uid, reason="", **trouble)
        store.add_event(conn, stored.job.uid, at, type=self.type, message=self.message)


def changes_of(stored: StoredJob, nodes: Iterable[Node], now: datetime) -> list[JobChange]:
    """The changes to a job that has not ended."""
    job, there = stored.job, {node.name: node for node in nodes if node.is_online(now)}
    own = there.get(job.node)
    changes = _of_own_node(job, own)
    changes += _of_runner(stored, own) if own else []
    can_go_on = can_run(job, there.values(), now)
    if job.state is JobState.EXEC and not can_go_on:
        changes.append(JobChange(f"Of its plan {_explain_gone(stored, there)} is gone.", state=JobState.UNSCHED))
    if job.state is JobState.UNSCHED and can_go_on:
        changes.append(JobChange("The nodes of its plan are there again.", state=JobState.EXEC))
    return changes


def _of_own_node(job: VideoJob, own: Node | None) -> list[JobChange]:
    """Whether it is silent; if not, whether it can store and deliver what the runner reports."""
    if own is None:
        message = f"Its node {job.node} is silent. What it does is not known; it goes on with its last plan."
        flags = frozenset({*job.flags, OFFLINE})
        return [] if OFFLINE in job.flags else [JobChange(message, "Offline", flags=flags)]
    full, undelivered = own.report.report_problem, own.report.delivery_problem
    problems = {flag for flag, problem in ((NODE_FULL, full), (UNDELIVERED, undelivered)) if problem}
    flags = frozenset({*job.flags} - NODE_FLAGS | problems)
    changes = list[JobChange]()
    if OFFLINE in job.flags:
        changes.append(JobChange(f"Its node {job.node} is heard again.", "Online", flags=flags))
    if full and NODE_FULL not in job.flags:
        message = f"Its node {job.node} cannot store results: {full}. The newest wait in memory until it can."
        changes.append(JobChange(message, "NodeFull", flags=flags))
    if not full and NODE_FULL in job.flags:
        changes.append(JobChange(f"Its node {job.node} can store results again.", "NodeRoom", flags=flags))
    if undelivered and UNDELIVERED not in job.flags:
        message = f"The web server does not take what its node {job.node} reports: {undelivered}. It waits on the node."
        changes.append(JobChange(message, "Undelivered", flags=flags))
    if not undelivered and UNDELIVERED in job.flags:
        message = f"The web server takes what its node {job.node} reports again."
        changes.append(JobChange(message, "Delivered", flags=flags))
    return changes


def _of_runner(stored: StoredJob, own: Node) -> list[JobChange]:
    """Its failure is kept until it runs."""
    job = stored.job
    runner = own.worker(job_key(job.uid))
    if runner is None:
        return []
    if runner.state is WorkerState.FAILED:
        trouble = UNCHANGED if runner.former_generation else CANNOT_RUN
        message = f"{trouble}{runner.message or runner.reason or 'it ended again and again'}".rstrip()
        change = JobChange(message, runner_trouble=message, cannot_run=trouble is CANNOT_RUN)
        return [change] if message != job.runner_trouble else []
    if runner.state is WorkerState.RUNNING and job.runner_trouble:
        return [JobChange("Its runner runs again.", runner_trouble="")]
    return []


def _explain_gone(stored: StoredJob, there: Mapping[str, Node]) -> str:
    places = stored.job.plan.flow_mapping.values() if stored.job.plan else ()
    return ", ".join(sorted({place.node for place in places} - {*there, stored.job.node, ""}))
