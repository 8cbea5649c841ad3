"""The environment of a worker process: its program, its files, its folder, its port, its variables."""

from __future__ import annotations

import hashlib
import json
import re
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.edge.agent.blobs import BlobCache
from app.edge.agent.driver import Allocation, ProcessSpec, WorkloadDriver
from app.edge.agent.store import AgentStore
from app.kit.files.private_folders import make_private
from app.nodes.model import Order, WorkKey

LOGS = "MODELMILL_LOG_"
PASSED = re.compile(
    rf"PATH|HOME|USER|LOGNAME|SHELL|TZ|TMPDIR|LANG|LANGUAGE|LC_\w+|VIRTUAL_ENV|PYTHON\w+|LD_LIBRARY_PATH|XDG_RUNTIME_DIR"
    rf"|SSL_CERT_(FILE|DIR)|(CUDA|NVIDIA|LIBVA|OMP|OPENBLAS|MKL)_\w+|{LOGS}\w+"
)
"""Variables of the agent that programs need to run at all, to find libraries and devices, and to log."""
DEFAULTS = {f"{LOGS}FORMAT": "console", "OPENBLAS_NUM_THREADS": "1"}
"""What workers are started with unless the agent has other values. numpy's library of linear algebra starts a thread
for each processor, which is a tenth of what a worker's start costs, and models run in onnxruntime."""
WORK = "work"
"""The folder of the workers' folders."""


@dataclass(frozen=True)
class WorkerPlan:
    """The process to run for an order, and where."""

    order: Order
    program: ProcessSpec
    port: int
    folder: Path
    digest: str
    """A running process of another digest has to be restarted."""


@dataclass(frozen=True)
class NodeContext:
    """What the workers of a node have in common."""

    node: str
    bind: str
    """The address that workers listen on."""
    address: str
    """The address by which others reach them."""
    agent_url: str
    """Of the agent's own server."""
    data: Path
    """The agent's folder."""
    store: AgentStore
    blobs: BlobCache
    scripts: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def folder(self, key: WorkKey) -> Path:
        return self.data / WORK / f"{key.part}-{key.uid}"

    async def plan(self, order: Order, driver: WorkloadDriver, *, port: int) -> WorkerPlan:
        """What to run for an order; downloads the files that are missing.

        Raises:
            WorkRefused: this node will not run it.
            FileUnavailable, Unreachable, OSError: it cannot be prepared now.
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
        )
        program = driver.program(order, allocation)
        return WorkerPlan(order, program, port, folder, _digest(order, program, sorted(files), port))

    def port(self, preferred: int) -> int:
        """The preferred port if it is free, else any free one that no other worker has. preferred 0: any."""
        if preferred and _is_free(self.bind, preferred):
            return preferred
        used = self.store.ports()
        while True:
            with socket.socket(_family(self.bind)) as probe:
                probe.bind((self.bind, 0))
                port = int(probe.getsockname()[1])
            if port not in used:
                return port


def environment_for_workers(ours: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """The agent's variables that workers inherit: those in PASSED, and those passed on by name.

    Workers may run users' scripts, so no token is among them. Workers log for people unless told otherwise.
    """
    variables = {name: value for name, value in ours.items() if name in passed or PASSED.fullmatch(name)}
    return {**DEFAULTS, **variables}


def _digest(order: Order, program: ProcessSpec, files: list[str], port: int) -> str:
    files = files if program.depends_on is None else []
    parts = [
        list(program.command),
        dict(program.environment),
        program.health_url,
        program.listens,
        program.restarts,
        files,
        port,
        dict(order.content if program.depends_on is None else program.depends_on),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _is_free(host: str, port: int) -> bool:
    with socket.socket(_family(host)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
