"""Nodes, their reports and their orders. Pure; shared by the web and the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from app.kit.text.json_form import JsonForm

HEARTBEAT_S = 10.0
OFFLINE_AFTER_S = 30.0
REPEAT_S = 5.0
"""An unacknowledged order is sent again after this time."""
NAME = r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$"
"""Kubernetes' names of nodes: RFC 1123."""
MAX_LOG_LINES = 20


class Side(StrEnum):
    CLOUD = "cloud"
    EDGE = "edge"
    HOST = "host"
    """Both, on one machine."""


class WorkerState(StrEnum):
    STARTING = "STARTING"
    """Its files are downloaded, or its process runs and is not healthy yet."""
    RUNNING = "RUNNING"
    BACKOFF = "BACKOFF"
    """It ended and is started again after a pause."""
    FAILED = "FAILED"
    """It cannot be started, or ended three times within 60 s: it is tried again with longer pauses, and FAILED until it
    runs. With restarts off: it ended."""
    UNKNOWN = "UNKNOWN"
    """Its node is not heard of. No node reports this."""


class Operation(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class WorkKey:
    """Identifies one worker of a resource."""

    kind: str
    """Of the resource, e.g. jointinferenceservices."""
    uid: str
    """Of the resource."""
    part: str
    """Which of its workers, e.g. edge or cloud."""

    def __str__(self) -> str:
        return f"{self.kind}/{self.uid}/{self.part}"


@dataclass(frozen=True)
class Order:
    """A message to a node. Only the newest of each key counts."""

    seq: int
    """Rises with every change, over all nodes."""
    node: str
    key: WorkKey
    namespace: str
    name: str
    operation: Operation
    generation: int
    content: Mapping[str, Any]
    """What the kind's driver on the node understands."""
    is_acknowledged: bool = False
    """The node has stored it."""


@dataclass(frozen=True)
class WorkerReport:
    """One worker as its agent sees it."""

    key: WorkKey
    namespace: str
    """Of its resource."""
    owner_name: str
    """The name of its resource."""
    name: str
    """What its resource calls the worker."""
    generation: int
    """Of the order that `state` is about."""
    state: WorkerState
    pid: int = 0
    """0: no process."""
    address: str = ""
    """host:port where it serves; empty when it does not."""
    restarts: int = 0
    exit_code: int | None = None
    """Of its last end; negative: the signal; None: it has not ended, or the code was not visible."""
    reason: str = ""
    """Why it FAILED, CamelCase."""
    message: str = ""
    log: tuple[str, ...] = ()
    """Its last lines, where it has failed."""
    started_at: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What the worker reports of itself, e.g. {"runtime": …}."""
    former_generation: int = 0
    """Of the order whose process continues because this one could not be started; 0: none."""
    is_encrypted: bool = False
    """It accepts encrypted connections only, from nodes with a certificate."""

    @property
    def url(self) -> str:
        """Where it serves, without a path; empty when it does not."""
        return f"http{'s' if self.is_encrypted else ''}://{self.address}" if self.address else ""


@dataclass(frozen=True)
class DiscoveredCamera:
    """A camera that answered on a node's network; what it says of itself."""

    address: str
    service: str
    """The URL of its ONVIF service."""
    name: str = ""
    hardware: str = ""
    """Its model."""


class TlsMode(StrEnum):
    """Whether the links of a node to others are encrypted."""

    AUTO = "auto"
    """Where others can reach its workers, and it has a certificate."""
    REQUIRED = "required"
    """Always: it neither serves nor sends clear text."""
    OFF = "off"


class Issuer(StrEnum):
    """Where a node's certificate comes from."""

    NONE = ""
    """It has none."""
    INSTALLATION = "installation"
    GIVEN = "given"
    """Its administrator gave the files to its agent."""


@dataclass(frozen=True)
class TlsReport:
    """The encryption of a node's links to others."""

    mode: TlsMode = TlsMode.AUTO
    is_serving: bool = False
    """Its workers accept encrypted connections only."""
    issuer: Issuer = Issuer.NONE
    expires_at: str = ""
    """Of its certificate."""
    problem: str = ""
    """Why it has no certificate, or no new one."""


@dataclass(frozen=True)
class NodeReport:
    """The state of a node."""

    cpu: float = 0.0
    """Share in use, 0..1."""
    memory: float = 0.0
    """Share in use, 0..1."""
    load: float = 0.0
    """Of the last minute."""
    memory_bytes: int = 0
    """In all."""
    cores: int = 0
    free_disk_bytes: int = 0
    accelerators: tuple[str, ...] = ()
    """Names of the devices that could run a NEF."""
    offers: Mapping[str, Any] = field(default_factory=dict)
    """What else this node has, by kind of work, see `WorkloadDriver.offers`."""
    workers: tuple[WorkerReport, ...] = ()
    order_problem: str = ""
    """Why the newest order could not be stored; empty: all were."""
    discovered: tuple[DiscoveredCamera, ...] = ()
    """Cameras on its network, where its administrator has it look for them."""
    tls: TlsReport = TlsReport()
    providers: tuple[str, ...] = ()
    """Execution providers that its onnxruntime was built with; the CPU is one. Of an old agent empty."""
    provider: str = "auto"
    """The one that its agent was started with, for workers without their own."""


WORKER_REPORT = JsonForm(WorkerReport)
NODE_REPORT = JsonForm(NodeReport)


@dataclass(frozen=True)
class Node:
    """A registered machine."""

    name: str
    side: Side
    created_at: str
    address: str = ""
    """Where other machines reach its workers, as its agent reports it."""
    version: str = ""
    """Of its agent."""
    last_seen_at: str | None = None
    """None: it has never connected."""
    report: NodeReport = NodeReport()
    labels: Mapping[str, str] = field(default_factory=dict)
    """By which services and jobs select it."""

    @property
    def is_at_the_edge(self) -> bool:
        return self.side is not Side.CLOUD

    def is_online(self, now: datetime) -> bool:
        if self.last_seen_at is None:
            return False
        return (now - datetime.fromisoformat(self.last_seen_at)).total_seconds() < OFFLINE_AFTER_S

    def workers_at(self, now: datetime) -> tuple[WorkerReport, ...]:
        """Its workers as reported, or UNKNOWN from the time on that it is offline: they may run on, or not."""
        if self.is_online(now):
            return self.report.workers
        return tuple(replace(worker, state=WorkerState.UNKNOWN) for worker in self.report.workers)

    def worker(self, key: WorkKey) -> WorkerReport | None:
        return next((worker for worker in self.report.workers if worker.key == key), None)

    @property
    def worker_keys(self) -> set[WorkKey]:
        return {worker.key for worker in self.report.workers}

    def workers_changed_since(self, former: Node) -> set[WorkKey]:
        """Workers that are new, gone or changed."""
        before, after = ({worker.key: worker for worker in state.report.workers} for state in (former, self))
        return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
