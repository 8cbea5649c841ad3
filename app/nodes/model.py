"""Nodes, their reports and their orders. Pure; shared by the web and the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from app.kit.text.json_form import JsonForm
from app.results.model.sink import SinkProgress

HEARTBEAT_S = 10.0
OFFLINE_AFTER_S = 30.0
REPEAT_S = 5.0
"""An unacknowledged order is sent again after this time."""
NAME = r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$"
"""The names of nodes in Kubernetes: RFC 1123."""
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
    """It ended, and is started again after a pause."""
    FAILED = "FAILED"
    """It cannot be started, or ended three times within 60 s: it is restarted after longer pauses, and stays FAILED
    until it runs. Without restarts: it ended."""
    UNKNOWN = "UNKNOWN"
    """Its node is offline. No node reports this."""


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
    """Which of its workers, such as edge or cloud."""

    def __str__(self) -> str:
        return f"{self.kind}/{self.uid}/{self.part}"


@dataclass(frozen=True)
class Order:
    """A message to a node. Only the newest of each key counts."""

    seq: int
    """Increases with every change, across all nodes."""
    node: str
    key: WorkKey
    namespace: str
    name: str
    operation: Operation
    generation: int
    content: Mapping[str, Any]
    """The content for the kind's driver on the node."""
    is_acknowledged: bool = False
    """The node has stored it."""


@dataclass(frozen=True)
class WorkerReport:
    """One worker, as reported by its agent."""

    key: WorkKey
    namespace: str
    """The namespace of its resource."""
    owner_name: str
    """The name of its resource."""
    name: str
    """The resource's name of the worker."""
    generation: int
    """The generation of the order to which `state` refers."""
    state: WorkerState
    pid: int = 0
    """0: no process."""
    address: str = ""
    """host:port at which it serves; empty if it does not."""
    restarts: int = 0
    exit_code: int | None = None
    """The exit code of its last end; negative: the signal; None: it has not ended, or the code was not visible."""
    reason: str = ""
    """Why it FAILED, in CamelCase."""
    message: str = ""
    log: tuple[str, ...] = ()
    """Its last lines, if it has failed."""
    started_at: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """The report of the worker itself, such as {"runtime": …}."""
    former_generation: int = 0
    """The generation of the order whose process continues because this one could not be started; 0: none."""
    is_encrypted: bool = False
    """It accepts only encrypted connections from nodes with a certificate."""

    @property
    def shown(self) -> WorkerReport:
        """Returns it as users see it: RUNNING while the process of a former order continues, with the reason and the
        message of the newest order's failure."""
        return replace(self, state=WorkerState.RUNNING) if self.former_generation else self

    @property
    def url(self) -> str:
        """Returns the URL at which it serves, without a path; empty if it does not."""
        return f"http{'s' if self.is_encrypted else ''}://{self.address}" if self.address else ""


@dataclass(frozen=True)
class DiscoveredCamera:
    """A camera that answered on a node's network, described by itself."""

    address: str
    service: str
    """The URL of its ONVIF service."""
    name: str = ""
    hardware: str = ""
    """Its model."""


class TlsMode(StrEnum):
    """Whether the links of a node to others are encrypted."""

    AUTO = "auto"
    """If others can reach its workers, and it has a certificate."""
    REQUIRED = "required"
    """Always: it neither serves nor sends clear text."""
    OFF = "off"


class Issuer(StrEnum):
    """The origin of a node's certificate."""

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
    """Its workers accept only encrypted connections."""
    issuer: Issuer = Issuer.NONE
    expires_at: str = ""
    """When its certificate expires."""
    problem: str = ""
    """Why it has no certificate, or could not get a new one."""


@dataclass(frozen=True)
class NodeReport:
    """The state of a node."""

    cpu: float = 0.0
    """Share in use, 0..1."""
    memory: float = 0.0
    """Share in use, 0..1."""
    load: float = 0.0
    """The load average of the last minute."""
    memory_bytes: int = 0
    """The total memory, in bytes."""
    cores: int = 0
    free_disk_bytes: int = 0
    accelerators: tuple[str, ...] = ()
    """Names of the devices that could run a NEF."""
    offers: Mapping[str, Any] = field(default_factory=dict)
    """Other offers of this node, by kind of work; see `WorkloadDriver.offers`."""
    workers: tuple[WorkerReport, ...] = ()
    order_problem: str = ""
    """Why the newest order could not be stored; empty: all were stored."""
    report_problem: str = ""
    """Why the newest report of a worker could not be stored, so that the worker still has it; empty: all were."""
    delivery_problem: str = ""
    """Why the web server does not take reports, which wait on the disk of the node; empty: it takes them."""
    lost_reports: int = 0
    """How many stored reports of its workers its agent has dropped since it was set up, because too many were waiting
    while the web server was away."""
    lost_reports_at: str = ""
    """When it dropped the last one; empty: none."""
    refused_reports: int = 0
    """How many reports of its workers the web server has refused since it was set up; its agent has dropped them."""
    refused_reports_at: str = ""
    """When the last one was refused; empty: none."""
    refusal: str = ""
    """Why the last one was refused."""
    discovered: tuple[DiscoveredCamera, ...] = ()
    """Cameras on its network, if its administrator has turned on discovery."""
    tls: TlsReport = TlsReport()
    providers: tuple[str, ...] = ()
    """The execution providers of its onnxruntime, including the CPU. Empty for an old agent."""
    provider: str = "auto"
    """The provider with which its agent was started, for workers without their own."""
    worker_cpu: Mapping[str, float] = field(default_factory=dict)
    """The part of `cpu` that the processes of its workers use, by kind of work; empty for an old agent."""

    sinks: Mapping[str, SinkProgress] = field(default_factory=dict)
    """How far it is with the sinks to which it delivers itself, by their ids."""

    @property
    def storage_problems(self) -> tuple[str, str, str]:
        return self.order_problem, self.report_problem, self.delivery_problem


WORKER_REPORT = JsonForm(WorkerReport)
NODE_REPORT = JsonForm(NodeReport)


@dataclass(frozen=True)
class Node:
    """A registered machine."""

    name: str
    side: Side
    created_at: str
    address: str = ""
    """The address at which other machines reach its workers, reported by its agent."""
    version: str = ""
    """The version of its agent."""
    last_seen_at: str | None = None
    """None: it has never connected."""
    report: NodeReport = NodeReport()
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels by which services and jobs select it."""

    @property
    def is_at_the_edge(self) -> bool:
        return self.side is not Side.CLOUD

    def is_online(self, now: datetime) -> bool:
        if self.last_seen_at is None:
            return False
        return (now - datetime.fromisoformat(self.last_seen_at)).total_seconds() < OFFLINE_AFTER_S

    def workers_at(self, now: datetime) -> tuple[WorkerReport, ...]:
        """Returns its workers as users see them, but UNKNOWN while it is offline: they may or may not continue."""
        if self.is_online(now):
            return tuple(worker.shown for worker in self.report.workers)
        return tuple(replace(worker, state=WorkerState.UNKNOWN) for worker in self.report.workers)

    def worker(self, key: WorkKey) -> WorkerReport | None:
        return next((worker for worker in self.report.workers if worker.key == key), None)

    @property
    def worker_keys(self) -> set[WorkKey]:
        return {worker.key for worker in self.report.workers}

    def workers_changed_since(self, former: Node) -> set[WorkKey]:
        """Returns the workers that are new, gone or changed."""
        before, after = ({worker.key: worker for worker in state.report.workers} for state in (former, self))
        return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
