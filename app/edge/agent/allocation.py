"""From an order to what is to be started for it: its files, its folder, its port, its program."""

from __future__ import annotations

import hashlib
import json
import re
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.edge.agent.blobs import Blobs
from app.edge.agent.driver import Place, ProcessSpec, WorkloadDriver
from app.edge.agent.store import Store
from app.kit.files.private_folders import make_private
from app.nodes.model import Order, WorkKey

LOGS = "MODELMILL_LOG_"
PASSED = re.compile(
    rf"PATH|HOME|USER|LOGNAME|SHELL|TZ|TMPDIR|LANG|LANGUAGE|LC_\w+|VIRTUAL_ENV|PYTHON\w+|LD_LIBRARY_PATH|XDG_RUNTIME_DIR"
    rf"|SSL_CERT_(FILE|DIR)|(CUDA|NVIDIA|LIBVA|OMP|OPENBLAS|MKL)_\w+|{LOGS}\w+"
)
"""Variables of the agent that programs need to run at all, to find libraries and devices, and to log."""
WORK = "work"
"""The folder of the workers' folders."""


@dataclass(frozen=True)
class Plan:
    """digest: another one means that the process is to be started anew."""

    order: Order
    program: ProcessSpec
    port: int
    folder: Path
    digest: str


@dataclass(frozen=True)
class NodeContext:
    """What all workers of this node stand on. bind: what they listen on; address: what others reach them by."""

    node: str
    bind: str
    address: str
    agent_url: str
    data: Path
    store: Store
    blobs: Blobs
    scripts: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def folder(self, key: WorkKey) -> Path:
        return self.data / WORK / f"{key.part}-{key.uid}"

    async def plan(self, order: Order, carrier: WorkloadDriver, *, port: int) -> Plan:
        """Fetches what is missing. Raises WorkRefused, NotNow, Unreachable, OSError."""
        wanted = carrier.blobs(order)
        files = {blob.sha256: await self.blobs.get(blob) for blob in wanted}
        folder = make_private(self.folder(order.key))
        place = Place(
            node=self.node,
            host=self.bind,
            port=port,
            folder=folder,
            blobs=files,
            agent_url=self.agent_url,
            scripts=self.scripts,
        )
        program = carrier.program(order, place)
        return Plan(order, program, port, folder, _digest(order, program, sorted(files), port))

    def port(self, kept: int) -> int:
        """The kept one if it is free, else any that is and that no other worker has."""
        if kept and _is_free(self.bind, kept):
            return kept
        taken = self.store.ports()
        while True:
            with socket.socket(_family(self.bind)) as probe:
                probe.bind((self.bind, 0))
                port = int(probe.getsockname()[1])
            if port not in taken:
                return port


def environment_for_workers(ours: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """What workers get of the agent's variables: what programs need to run at all, and what is passed on by name.

    Workers may run users' scripts, so tokens of ours and of others stay here. Their last lines are read by people,
    unless another form of log is asked for.
    """
    kept = {name: value for name, value in ours.items() if name in passed or PASSED.fullmatch(name)}
    return {f"{LOGS}FORMAT": "console", **kept}


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
