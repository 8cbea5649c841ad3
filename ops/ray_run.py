"""The record of a Ray that ops/ray-local has started, so that it ends only these processes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from app.standalone.local_ray import RESOURCE, ray_settings
from app.standalone.ports import LOOPBACK
from app.training.gateway.ray_gateway import RayGateway, RayOptions
from app.training.model import Node

WHOLE = 2
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


@dataclass(frozen=True)
class NodeProcess:
    """A node: the pid of its subreaper, and when that started, because another process may have the pid since then."""

    pid: int
    began: str

    @property
    def is_alive(self) -> bool:
        return bool(self.began) and began(self.pid) == self.began

    def send(self, number: signal.Signals) -> None:
        """Sends a signal. SIGKILL goes to the whole group, which the subreaper leads."""
        with contextlib.suppress(ProcessLookupError):
            if self.is_alive:
                os.kill(-self.pid if number == signal.SIGKILL else self.pid, number)


@dataclass(frozen=True)
class Cluster:
    """The record of a start. `temporary`: Ray's own folder, whose path must be short."""

    dashboard_port: int
    gcs_port: int
    token: str
    temporary: str
    nodes: tuple[NodeProcess, ...] = ()

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.dashboard_port}"

    @property
    def gcs_address(self) -> str:
        return f"{LOOPBACK}:{self.gcs_port}"

    @property
    def settings(self) -> dict[str, str]:
        return ray_settings(self.dashboard_port, self.gcs_port, self.token)

    @property
    def is_alive(self) -> bool:
        return all(node.is_alive for node in self.nodes)

    @property
    def is_whole(self) -> bool:
        """Returns whether its head and its worker were started and are alive."""
        return len(self.nodes) == WHOLE and self.is_alive

    def living(self) -> tuple[Node, ...]:
        """Returns the living nodes.

        Raises:
            RayUnreachable: The head does not answer.
        """
        with contextlib.closing(
            RayGateway(RayOptions(self.address, self.gcs_address, self.token, RESOURCE))
        ) as gateway:
            gateway.job("of-nobody--a01")  # raises if no jobs are accepted
            return gateway.nodes()


class RunFolder:
    """The folder for the record and the logs of `ray start`. Only for its owner, because it contains the token."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.path = data / "run" / "ray"
        self._remembered = self.path / "cluster.json"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Serializes processes that start or stop at the same time."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.path / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self) -> Cluster | None:
        """Reads the record. None: nothing was started, it was stopped, or the record is unreadable."""
        try:
            kept = json.loads(self._remembered.read_text())
            return Cluster(**{**kept, "nodes": tuple(NodeProcess(**node) for node in kept["nodes"])})
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, cluster: Cluster) -> None:
        fresh = self._remembered.with_suffix(".new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(cluster), file)
        fresh.replace(self._remembered)

    def token(self) -> str:
        """Returns the token. It is the same at each start, so that a running `modelmill up` need not be told again."""
        kept = self.path / "token"
        with contextlib.suppress(FileExistsError), os.fdopen(os.open(kept, _NEW, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24))
        return kept.read_text()

    def forget(self) -> None:
        self._remembered.unlink(missing_ok=True)


def began(pid: int) -> str:
    """Returns the boot id and the ticks since: unique for a process. Empty: there is none, or it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" else f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {fields[18]}"
    except OSError:
        return ""
