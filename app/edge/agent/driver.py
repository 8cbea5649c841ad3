"""The interface of a capability in the agent: it turns an order into a worker process, and adds the endpoints it
needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from starlette.routing import BaseRoute

from app.kit.errors import BadInput
from app.nodes.model import Order, WorkerReport, WorkKey


class WorkRefused(BadInput):
    """This node will not run that."""

    code = "WORK_REFUSED"

    def __init__(self, message: str, *, reason: str, hint: str = "") -> None:
        """reason: CamelCase, for a condition."""
        super().__init__(message, hint=hint, detail={"reason": reason})
        self.reason = reason


@dataclass(frozen=True)
class Blob:
    """A file that a worker needs. The agent's cache stores it under its sha256, verified."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class Allocation:
    """Where a worker is to run, and what it gets there."""

    node: str
    """The name of this node."""
    host: str
    """The address to listen on."""
    port: int
    """Free on this machine, and the same after a restart."""
    folder: Path
    """The worker's own, kept over restarts."""
    blobs: Mapping[str, Path]
    """The file of each sha256."""
    agent_url: str
    """Of the agent's own server."""
    scripts: Sequence[Path] = ()
    """Folders below which users' programs may lie."""


@dataclass(frozen=True)
class Reply:
    """The web's answer, of any status."""

    status: int
    body: bytes
    content_type: str


@dataclass(frozen=True)
class ProcessSpec:
    """The process of a worker. One that reports itself to the agent as running is RUNNING at once."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    """In addition to the agent's own."""
    health_url: str = ""
    """Polled until it answers 200, which makes the worker RUNNING."""
    listens: bool = False
    """Without a health_url: it is RUNNING once it accepts connections at its port; False: once it has lived a while."""
    restarts: bool = True
    """False: it is not started again after it has ended."""
    depends_on: Mapping[str, Any] | None = None
    """The part of the order and of its files that the process is started from, JSON: it is restarted when this changes,
    and otherwise finds what was written for it again. None: all of it."""


class Agent(Protocol):
    """What a driver's endpoints may do with the agent, from its event loop."""

    node: str

    @property
    def own_address(self) -> str:
        """host:port of the agent's own server, as others may call it."""

    async def take(self, order: Order) -> None:
        """Store an order and act on it, as if it had come from the web."""

    def find(self, kind: str, namespace: str, name: str) -> list[Order]:
        """The stored orders of a resource."""

    def owner_of(self, kind: str, worker: str) -> Order | None:
        """The stored order whose worker has this name."""

    def reports(self, kind: str) -> list[WorkerReport]:
        """Of the workers of this kind, as they are now."""

    def heard(self, key: WorkKey, *, is_running: bool, detail: Mapping[str, Any]) -> None:
        """A worker has reported itself. detail is merged into the node's report of it."""

    def send(self, path: str, body: bytes, content_type: str, *, replaces: str = "") -> None:
        """POST this to the web, in order. It is stored until the web has taken it; the newest 1000 are.

        Args:
            path: of the web, with a leading slash.
            body: of the POST.
            content_type: of the body.
            replaces: an unsent report with the same word is dropped; empty: none.
        """

    async def ask(self, path: str, body: bytes, content_type: str, *, authorization: str = "") -> Reply:
        """POST this to the web now, on behalf of a caller.

        Args:
            path: of the web, with a leading slash.
            body: of the POST.
            content_type: of the body.
            authorization: the caller's header; the node's own token is not sent.

        Raises:
            Unreachable: the web does not answer.
        """


class WorkloadDriver(Protocol):
    """Runs the orders of one kind."""

    kind: str
    """Of its orders, e.g. jointinferenceservices."""

    def blobs(self, order: Order) -> list[Blob]:
        """The files that must be there before the order can run. Raises WorkRefused."""

    def worker_name(self, order: Order) -> str:
        """What the resource calls its worker."""

    def program(self, order: Order, place: Allocation) -> ProcessSpec:
        """The process to run. May write into the worker's folder. Raises WorkRefused."""

    def routes(self, agent: Agent) -> list[BaseRoute]:
        """What the agent's own server answers for this kind."""

    def offers(self, agent: Agent) -> Mapping[str, Any]:
        """What this node offers to this kind of work, JSON; part of every report."""
