"""The environment of a worker process: its program, its files, its folder, its port, its variables."""

from __future__ import annotations

import hashlib
import json
import re
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.edge.agent.blobs import BlobCache
from app.edge.agent.driver import Allocation, NodeTls, ProcessSpec, WorkloadDriver
from app.edge.agent.store import AgentStore
from app.inference.predictor_options import ExecutionProvider
from app.inference.sources.hardware_decoder import VARIABLE as DECODING
from app.inference.sources.refusals import AUTHORITIES
from app.kit.files import make_private
from app.nodes.model import Order, WorkKey

LOGS = "MODELMILL_LOG_"
PASSED = re.compile(
    rf"PATH|HOME|USER|LOGNAME|SHELL|TZ|TMPDIR|LANG|LANGUAGE|LC_\w+|VIRTUAL_ENV|PYTHON\w+|LD_LIBRARY_PATH|XDG_RUNTIME_DIR"
    rf"|SSL_CERT_(FILE|DIR)|(CUDA|NVIDIA|LIBVA|OMP|OPENBLAS|MKL)_\w+|{LOGS}\w+|{DECODING}|{AUTHORITIES}"
)
"""Variables of the agent that programs need to run, to find libraries and devices, and to log."""
DEFAULTS = {f"{LOGS}FORMAT": "console", "OPENBLAS_NUM_THREADS": "1"}
"""Defaults for workers if the agent has no other values. numpy's linear algebra library starts a thread for each
processor, which takes a tenth of a worker's start, though models run in onnxruntime."""
WORK = "work"
"""The folder of the workers' folders."""


@dataclass(frozen=True)
class WorkerPlan:
    """The process to run for an order, and its folder."""

    order: Order
    program: ProcessSpec
    port: int
    folder: Path
    digest: str
    """A running process with another digest has to be restarted."""


@dataclass(frozen=True)
class NodeContext:
    """What all workers of a node have in common."""

    node: str
    bind: str
    """The address on which workers listen."""
    address: str
    """The address at which others reach them."""
    agent_url: str
    """URL of the agent's own server."""
    data: Path
    """The agent's folder."""
    store: AgentStore
    blobs: BlobCache
    scripts: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    provider: ExecutionProvider = ExecutionProvider.AUTO
    """Of onnxruntime, for workers without their own."""
    tls: Callable[[], NodeTls] = NodeTls
    """As it is now."""

    def folder(self, key: WorkKey) -> Path:
        return self.data / WORK / f"{key.part}-{key.uid}"

    async def plan(self, order: Order, driver: WorkloadDriver, *, port: int) -> WorkerPlan:
        """Prepare what to run for an order; missing files are downloaded.

        Raises:
            WorkRefused: This node will not run it.
            FileUnavailable, Unreachable, OSError: It cannot be prepared now.
        """
        blobs = driver.blobs(order)
        files = {blob.sha256: await self.blobs.get(blob) for blob in blobs}
        folder = make_private(self.folder(order.key))
        allocation = Allocation(
            node=self.node,
            host=self.bind,
            port=port,
            folder=folder,
            blobs=files,
            agent_url=self.agent_url,
            scripts=self.scripts,
            provider=self.provider,
            tls=self.tls(),
        )
        program = driver.prepare(order, allocation)
        return WorkerPlan(order, program, port, folder, _digest(order, program, sorted(files), port, self.provider))

    def port(self, preferred: int) -> int:
        """Returns the preferred port if it is free, otherwise any free one that no other worker has.

        Args:
            preferred: 0 for any port.
        """
        if preferred and _is_free(self.bind, preferred):
            return preferred
        used = self.store.ports()
        while True:
            with socket.socket(_choose_family(self.bind)) as probe:
                probe.bind((self.bind, 0))
                port = int(probe.getsockname()[1])
            if port not in used:
                return port


def environment_for_workers(ours: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """Returns the agent's variables that workers inherit: those in PASSED, and those passed on by name.

    Workers may run users' scripts, so no token is among them. Workers log for people unless told otherwise.
    """
    variables = {name: value for name, value in ours.items() if name in passed or PASSED.fullmatch(name)}
    return {**DEFAULTS, **variables}


def _digest(
    order: Order,
    program: ProcessSpec,
    files: list[str],
    port: int,
    provider: ExecutionProvider = ExecutionProvider.AUTO,
) -> str:
    files = files if program.depends_on is None else []
    parts = [
        list(program.command),
        dict(program.environment),
        program.health_url,
        program.listens,
        *(["encrypted"] if program.is_encrypted else []),
        *([provider] if provider is not ExecutionProvider.AUTO else []),
        program.restarts,
        files,
        port,
        dict(order.content if program.depends_on is None else program.depends_on),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _is_free(host: str, port: int) -> bool:
    with socket.socket(_choose_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _choose_family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
