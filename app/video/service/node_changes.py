"""What became otherwise with nodes, and what that means for a job. Pure, but for what makes a change so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.kit.clock import from_text
from app.nodes.model import OFFLINE_AFTER_S, Node, WorkerState, WorkKey
from app.video import store
from app.video.model.job import JOBS, JobState
from app.video.service.orders import is_carried, job_key
from app.video.service.reports import OFFLINE
from app.video.service.resources import key_of
from app.video.store import Kept

CANNOT_RUN = "Its runner cannot run: "


@dataclass(frozen=True)
class NodeChanges:
    """What of a node's reports matters to jobs. runners: key → (state, address)."""

    last_seen_at: str
    host: tuple[Any, ...]
    runners: Mapping[WorkKey, tuple[str, str]]

    @staticmethod
    def of(node: Node) -> NodeChanges:
        host, offered = node.worker(key_of(node.name)), node.report.offers.get(JOBS)
        stages = host.detail.get("stages") if host else None
        served = sorted(map(str, stages)) if isinstance(stages, Mapping) else []
        runners = {one.key: (one.state.value, one.address) for one in node.report.workers if one.key.kind == JOBS}
        of_host = (host.state, host.address, served) if host else ()
        return NodeChanges(node.last_seen_at or "", (node.address, node.side, str(offered), *of_host), runners)

    def tells_of(self, key: WorkKey, known: NodeChanges | None) -> bool:
        """Is anything new about this runner?"""
        return known is None or known.runners.get(key) != self.runners.get(key)

    def tells_of_hosts(self, known: NodeChanges | None) -> bool:
        """Is anything new about where stages are served? A node that says nothing more is told of with what it said
        last; one that comes back says so after a while."""
        if known is None or known.host != self.host or known.last_seen_at == self.last_seen_at:
            return True
        if not known.last_seen_at or not self.last_seen_at:
            return True
        silent_s = (from_text(self.last_seen_at) - from_text(known.last_seen_at)).total_seconds()
        return silent_s >= OFFLINE_AFTER_S


@dataclass(frozen=True)
class Change:
    """Something that became so with a job. type: of the event. state: that it enters; flag: put on, or taken off."""

    message: str
    type: str = "Note"
    state: JobState | None = None
    flag: bool | None = None
    reason: str | None = None

    def make(self, conn: Connection, kept: Kept, at: str) -> None:
        if self.state is not None:
            store.enter(conn, kept, self.state, at=at, message=self.message)
            return
        if self.flag is not None:
            flags = {*kept.job.flags, OFFLINE} if self.flag else {*kept.job.flags} - {OFFLINE}
            store.change(conn, kept.job.uid, flags=sorted(flags))
        if self.reason is not None:
            store.change(conn, kept.job.uid, reason=self.reason)
        store.add_event(conn, kept.job.uid, at, type=self.type, message=self.message)


def changes_of(kept: Kept, nodes: Iterable[Node], now: datetime) -> list[Change]:
    """What is no longer as the job has it, that has not ended."""
    job, there = kept.job, {node.name: node for node in nodes if node.is_online(now)}
    found, own = [], there.get(job.node)
    if own is None and OFFLINE not in job.flags:
        said = f"Its node {job.node} is silent. What it does is not known; it goes on with its last plan."
        found.append(Change(said, "Offline", flag=True))
    if own is not None and OFFLINE in job.flags:
        found.append(Change(f"Its node {job.node} is heard again.", "Online", flag=False))
    found += _of_runner(kept, own) if own else []
    can_go_on = is_carried(job, there.values(), now)
    if job.state is JobState.EXEC and not can_go_on:
        found.append(Change(f"Of its plan {_gone(kept, there)} is gone.", state=JobState.UNSCHED))
    if job.state is JobState.UNSCHED and can_go_on:
        found.append(Change("The nodes of its plan are there again.", state=JobState.EXEC))
    return found


def _of_runner(kept: Kept, own: Node) -> list[Change]:
    """Its failure is the job's reason until it runs."""
    runner, reason = own.worker(job_key(kept.job.uid)), kept.job.reason
    if runner is None:
        return []
    if runner.state is WorkerState.FAILED:
        said = f"{CANNOT_RUN}{runner.message or runner.reason or 'it ended again and again'}"
        return [Change(said, reason=said)] if said != reason else []
    if runner.state is WorkerState.RUNNING and reason.startswith(CANNOT_RUN):
        return [Change("Its runner runs again.", reason="")]
    return []


def _gone(kept: Kept, there: Mapping[str, Node]) -> str:
    places = kept.job.plan.flow_mapping.values() if kept.job.plan else ()
    return ", ".join(sorted({place.node for place in places} - {*there, kept.job.node, ""}))
