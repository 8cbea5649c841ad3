"""The interface of a capability in the agent: it turns an order into a worker process, and adds the endpoints it
needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from starlette.routing import BaseRoute

from app.inference.predictor_options import ExecutionProvider
from app.kit.errors import BadInput
from app.kit.network.tls import Credentials
from app.nodes.model import Order, WorkerReport, WorkKey

CLEAR_TEXT_REFUSED, NO_CERTIFICATE = "ClearTextRefused", "NoCertificate"


class WorkRefused(BadInput, code="WORK_REFUSED"):
    """This node refuses to run that."""

    def __init__(self, message: str, *, reason: str, hint: str = "") -> None:
        """
        Args:
            reason: CamelCase, for a condition.
        """
        super().__init__(message, hint=hint, detail={"reason": reason})
        self.reason = reason


@dataclass(frozen=True)
class Blob:
    """A file that a worker needs. The agent's cache stores it under its sha256, verified."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class NodeTls:
    """The encryption of a worker's links to other nodes."""

    credentials: Credentials | None = None
    """Of the node; None: it has no certificate."""
    is_serving: bool = False
    """A worker that other nodes call accepts encrypted connections only."""
    is_required: bool = False
    """A worker sends nothing to another node in clear text."""

    def refuse_clear_text(self, url: str, node: str) -> None:
        """Checks the link to a worker of another node.

        Raises:
            WorkRefused: It is not encrypted, and this node requires it.
        """
        if self.is_required and not url.startswith("https:"):
            raise WorkRefused(
                f"The worker on {node} does not encrypt its link, and this node requires it.",
                reason=CLEAR_TEXT_REFUSED,
                hint=f"Start the agent of {node} with --tls required.",
            )

    def require_credentials(self) -> None:
        """Checks that this node can serve the links that it requires.

        Raises:
            WorkRefused: Its workers must serve encrypted links, and it has no certificate yet.
        """
        if self.is_serving and self.credentials is None:
            raise WorkRefused(
                "This node has no certificate yet, and requires encrypted links.",
                reason=NO_CERTIFICATE,
                hint="Its web server issues one as soon as it is reached.",
            )


@dataclass(frozen=True)
class Allocation:
    """Where a worker runs, and what it gets."""

    node: str
    """The name of this node."""
    host: str
    """The address to listen on."""
    port: int
    """Free on this machine, and the same after restarts."""
    folder: Path
    """The worker's own folder, kept over restarts."""
    blobs: Mapping[str, Path]
    """Files by sha256."""
    agent_url: str
    """URL of the agent's own server."""
    scripts: Sequence[Path] = ()
    """Folders that may contain users' programs."""
    provider: ExecutionProvider = ExecutionProvider.AUTO
    """The node's own."""
    tls: NodeTls = NodeTls()


@dataclass(frozen=True)
class Reply:
    """The web's answer, with any status."""

    status: int
    body: bytes
    content_type: str


@dataclass(frozen=True)
class ProcessSpec:
    """The process of a worker. One that reports itself to the agent as running is RUNNING at once."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in addition to the agent's own."""
    health_url: str = ""
    """Polled until it answers 200, which makes the worker RUNNING."""
    is_encrypted: bool = False
    """It accepts encrypted connections only."""
    listens: bool = False
    """Without a health_url: True if it is RUNNING once its port accepts connections; False if once it has run for a
    while."""
    restarts: bool = True
    """False if it is not started again after its end."""
    depends_on: Mapping[str, Any] | None = None
    """The part of the order and its files that the process depends on, as JSON: it is restarted only when this changes.
    None: all of it."""


class Agent(Protocol):
    """What a driver's endpoints can do with the agent, in its event loop."""

    node: str

    @property
    def own_address(self) -> str:
        """Returns host:port of the agent's own server, as others reach it."""

    async def take(self, order: Order) -> None:
        """Stores an order and acts on it, as if the web had sent it."""

    def find(self, kind: str, namespace: str, name: str) -> list[Order]:
        """Returns the stored orders of a resource."""

    def owner_of(self, kind: str, worker: str) -> Order | None:
        """Returns the stored order whose worker has this name."""

    def reports(self, kind: str) -> list[WorkerReport]:
        """Returns the current reports of the workers of this kind."""

    def sources_read(self) -> set[str]:
        """Returns the sources that the workers of this node read, as they are opened."""

    def note_status(self, key: WorkKey, *, is_running: bool, detail: Mapping[str, Any]) -> None:
        """Notes that a worker has reported itself.

        Args:
            detail: merged into the node's report of it.
        """

    def send(self, path: str, body: bytes, content_type: str, *, replaces: str = "", rows_of: str = "") -> None:
        """POST this to the web, in order. It is stored until the web has accepted it; at most the newest 1000 are.

        Args:
            path: of the web, with a leading slash.
            body: of the POST.
            content_type: of the body.
            replaces: an unsent report with the same key is dropped; empty: none.
            rows_of: uid of the producer whose rows are in the body, which this node may deliver itself; empty: none.

        Raises:
            ReportNotStored: The disk is full, or cannot be written.
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
    """Turns the orders of one kind into processes."""

    kind: str
    """Kind of its orders, e.g. jointinferenceservices."""

    def blobs(self, order: Order) -> list[Blob]:
        """Returns the files that the order needs.

        Raises:
            WorkRefused: The order cannot be run.
        """

    def worker_name(self, order: Order) -> str:
        """Returns the name of the worker in the resource."""

    def prepare(self, order: Order, place: Allocation) -> ProcessSpec:
        """Writes the worker's files, and returns how its process is started.

        A process that is running and does not depend on what has changed reads its files again (decision 26).

        Raises:
            WorkRefused: This node will not run it.
        """

    def sources(self, order: Order) -> Collection[str]:
        """Returns the sources that the process reads, as they are opened.

        Raises:
            WorkRefused: The order cannot be run.
        """

    def routes(self, agent: Agent) -> list[BaseRoute]:
        """Returns the endpoints for this kind in the agent's own server."""

    def offers(self, agent: Agent) -> Mapping[str, Any]:
        """Returns what this node offers for this kind of work, as JSON; part of every report."""
