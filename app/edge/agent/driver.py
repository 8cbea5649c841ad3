"""What a capability brings to the agent: how an order becomes a worker process, and what the agent serves for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from starlette.routing import BaseRoute

from app.kit.errors import BadInput
from app.nodes.model import Order, WorkKey


class WorkRefused(BadInput):
    """This node will not run that. reason: CamelCase, for a condition."""

    code = "WORK_REFUSED"

    def __init__(self, message: str, *, reason: str, hint: str = "") -> None:
        super().__init__(message, hint=hint, detail={"reason": reason})
        self.reason = reason


@dataclass(frozen=True)
class Blob:
    """A file that a worker needs. It lies in the agent's cache under its sha256, checked."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class Place:
    """Where a worker is to run. port: free on this machine, and kept over restarts; host: what it is to bind to.

    folder: the worker's own, kept over restarts. blobs: sha256 → file. agent_url: of the agent's own server.
    scripts: folders below which users' programs may lie. node: name of this node.
    """

    node: str
    host: str
    port: int
    folder: Path
    blobs: Mapping[str, Path]
    agent_url: str
    scripts: Sequence[Path] = ()


@dataclass(frozen=True)
class Reply:
    """What the web answered, whatever that is."""

    status: int
    body: bytes
    content_type: str


@dataclass(frozen=True)
class ProcessSpec:
    """health_url: asked until it answers 200, which makes the worker RUNNING. Without one, it runs once it takes
    connections at its port, if it listens, or has lived for a while, if it does not. A worker that says to the agent
    that it is running is RUNNING, too. environment: beside the agent's own."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    health_url: str = ""
    listens: bool = False
    restarts: bool = True
    """False: one end is its last."""
    depends_on: Mapping[str, Any] | None = None
    """What of the order, and of its files, it is made of, JSON: when only the rest changes it goes on as it is, and
    what was written for it is there anew. None: all of it."""


class Agent(Protocol):
    """What a Carrier's endpoints may do with the agent. All are for its event loop."""

    node: str

    @property
    def own_address(self) -> str:
        """host:port of the agent's own server, as others may call it."""

    async def take(self, order: Order) -> None:
        """Store an order and act on it, as if it had come from the web."""

    def find(self, kind: str, namespace: str, name: str) -> list[Order]:
        """What is stored of a resource."""

    def owner_of(self, kind: str, worker: str) -> Order | None:
        """The stored order whose worker has this name."""

    def heard(self, key: WorkKey, *, is_running: bool, detail: Mapping[str, Any]) -> None:
        """A worker has said how it is. detail goes into its report."""

    def send(self, path: str, body: bytes, content_type: str, *, replaces: str = "") -> None:
        """POST this to the web, in order, also when it is away now: it is kept until the web has taken it, newest 1000.

        path: of the web, with `/`. replaces: what lies unsent under the same word is replaced by this.
        """

    async def ask(self, path: str, body: bytes, content_type: str, *, authorization: str = "") -> Reply:
        """POST this to the web now, for who asks here and in their name: authorization is their header, and nothing
        of this node's. Raises Unreachable."""


class WorkloadDriver(Protocol):
    kind: str
    """Which orders it carries, as jointinferenceservices."""

    def blobs(self, order: Order) -> list[Blob]:
        """What must be there before it can run. Raises WorkRefused."""

    def worker_name(self, order: Order) -> str: ...

    def program(self, order: Order, place: Place) -> ProcessSpec:
        """Raises WorkRefused."""

    def routes(self, agent: Agent) -> list[BaseRoute]:
        """What the agent's own server answers for this kind."""

    def offers(self, agent: Agent) -> Mapping[str, Any]:
        """What of this node the web should know for this kind of work, JSON; goes into every report."""
