"""What a node is, what it reports, and what it is told. Pure; shared by the web and the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

HEARTBEAT_S = 10.0
OFFLINE_AFTER_S = 30.0
REPEAT_S = 5.0
"""What a node has not acknowledged is sent again after this time."""
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
    """Its files are fetched, or its process runs and has not said that it serves."""
    RUNNING = "RUNNING"
    BACKOFF = "BACKOFF"
    """It ended and is started again after a pause."""
    FAILED = "FAILED"
    """It cannot be started, or ended three times within 60 s: it is tried again with longer pauses, and FAILED until it
    runs. With restarts off: it ended."""


class Operation(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class WorkKey:
    """What one message is about. part: which of the workers of a resource, as edge or cloud."""

    kind: str
    uid: str
    part: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.uid}/{self.part}"


@dataclass(frozen=True)
class Order:
    """A message down. Of a key only the newest counts. seq rises with every change, over all nodes.

    content: what the kind's Carrier on the node understands. is_acknowledged: the node has stored it.
    """

    seq: int
    node: str
    key: WorkKey
    namespace: str
    name: str
    operation: Operation
    generation: int
    content: Mapping[str, Any]
    is_acknowledged: bool = False


@dataclass(frozen=True)
class WorkerReport:
    """One worker as its agent sees it.

    name: of the worker, as its resource calls it. address: host:port where it serves; empty when it does not.
    generation: of the order that state is about; former_generation: of the one whose process goes on because this one
    could not be brought up, 0: there is none.
    exit_code: of its last end; negative: the signal; None: it has not ended, or nobody could see it. reason: CamelCase,
    of a FAILED one. detail: what the worker says of itself, as {"runtime": …}.
    """

    key: WorkKey
    namespace: str
    owner_name: str
    name: str
    generation: int
    state: WorkerState
    pid: int = 0
    address: str = ""
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    log: tuple[str, ...] = ()
    started_at: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    former_generation: int = 0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "log": list(self.log)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> WorkerReport:
        """Raises KeyError, TypeError, ValueError for what is none."""
        return WorkerReport(
            **{
                **data,
                "key": WorkKey(**data["key"]),
                "state": WorkerState(data["state"]),
                "log": tuple(str(line) for line in data.get("log", ())),
            }
        )


@dataclass(frozen=True)
class NodeReport:
    """A sign of life. cpu, memory: share in use, 0..1; accelerators: names of what could run a NEF. offers:
    what else this node has, by kind of work: see Carrier.offers."""

    cpu: float = 0.0
    memory: float = 0.0
    load: float = 0.0
    memory_bytes: int = 0
    cores: int = 0
    free_disk_bytes: int = 0
    accelerators: tuple[str, ...] = ()
    offers: Mapping[str, Any] = field(default_factory=dict)
    workers: tuple[WorkerReport, ...] = ()

    def to_json(self) -> dict[str, Any]:
        shown = asdict(self)
        return {**shown, "accelerators": list(self.accelerators), "workers": [w.to_json() for w in self.workers]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> NodeReport:
        """Raises KeyError, TypeError, ValueError for what is none."""
        return NodeReport(
            **{
                **data,
                "accelerators": tuple(data.get("accelerators", ())),
                "workers": tuple(WorkerReport.from_json(worker) for worker in data.get("workers", ())),
            }
        )


@dataclass(frozen=True)
class Node:
    """address: where other machines reach the workers of this one, as the agent said. last_seen_at: None until then."""

    name: str
    side: Side
    created_at: str
    address: str = ""
    version: str = ""
    last_seen_at: str | None = None
    report: NodeReport = NodeReport()

    def is_online(self, now: datetime) -> bool:
        if self.last_seen_at is None:
            return False
        return (now - datetime.fromisoformat(self.last_seen_at)).total_seconds() < OFFLINE_AFTER_S

    def worker(self, key: WorkKey) -> WorkerReport | None:
        return next((worker for worker in self.report.workers if worker.key == key), None)

    def without_workers(self) -> Node:
        return replace(self, report=replace(self.report, workers=()))
