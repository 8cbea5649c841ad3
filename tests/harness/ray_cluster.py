"""A real Ray cluster on this host, for tests and measurements: a head that runs nothing, and workers with pretended
GPUs. Up in about 8 s; what users start is `ops/ray-local`.

Each node runs under a subreaper (app.standalone.subreaper) whose lifeline this process holds: however it ends, every
process of the node ends too, and every program that runs there.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from app.standalone import ray_node
from app.standalone.process import Command, Part, Process, tail
from app.training.errors import RayUnreachable
from app.training.gateway.ray_gateway import RayGateway, RayOptions
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_ports
from tests.harness.processes import with_descendants

STAND_INS = REPOSITORY / "tests" / "standins" / "verl"
RESOURCE = "worker_node"
STORE_BYTES = 80_000_000
PATIENCE_S = 300
EIGHT_GPUS = ((8, 26),)
TWO_OF_FOUR = ((4, 20), (4, 20))
FASTER = {
    # A dead node is noticed after some 5 s, not after 20.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "5",
    # Nobody is to be killed because other tests have filled the machine's memory.
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_DASHBOARD_ENABLE_PROFILING": "1",
    # What it does although nobody looks takes a twentieth of a processor: seldom is enough.
    "LOG_NAME_UPDATE_INTERVAL_S": "3",
    "RAY_DASHBOARD_AGENT_LOOP_MONITOR_INTERVAL_S": "5",
    "REPORTER_UPDATE_INTERVAL_MS": "10000",
    "SCAN_EVENT_DIR_INTERVAL_SECONDS": "20",
}


class RayCluster:
    """nodes: (GPUs, CPUs) of each worker. environment: more of it for all nodes, as RAY_JOB_START_TIMEOUT_SECONDS.
    resources: custom ones of the last of these sizes."""

    def __init__(
        self,
        nodes: Sequence[tuple[int, int]] = EIGHT_GPUS,
        *,
        token: str = "",
        environment: Mapping[str, str] | None = None,
        resources: Mapping[str, float] | None = None,
    ) -> None:
        self.sizes = list(nodes)
        self._others = dict(resources or {})
        self.token = token
        self._gcs_port, self._dashboard_port, self._client_port = free_ports(3)
        self._lifeline, self._held = os.pipe()
        self.folder = Path(tempfile.mkdtemp(prefix="mm-ray-", dir="/tmp"))  # short: it holds UNIX sockets
        node = ray_node.environment(os.environ, token, self.folder)
        self._environment = {**node, "PYTHONPATH": str(STAND_INS), **FASTER, **(environment or {})}
        self.head: Process | None = None
        self.workers: list[Process] = []
        self._size_of: dict[Process, tuple[int, int, Mapping[str, float] | None]] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._dashboard_port}"

    @property
    def gcs_address(self) -> str:
        return f"127.0.0.1:{self._gcs_port}"

    @property
    def settings(self) -> dict[str, str]:
        """For tests.harness.deployment.Deployment, and with MODELMILL_ before the names for any other process."""
        return {"RAY_ADDRESS": self.address, "RAY_GCS_ADDRESS": self.gcs_address, "RAY_TOKEN": self.token}

    def options(self, timeout_s: float = 60) -> RayOptions:
        """timeout_s: longer than the product's own, for a busy machine may need that."""
        return RayOptions(self.address, self.gcs_address, self.token, RESOURCE, timeout_s)

    def start(self) -> None:
        """One worker after the other: each takes seconds of the processor, and Ray gives up one that takes 30 s."""
        self.start_head()
        for number, (gpus, cpus) in enumerate(self.sizes, 1):
            self.start_worker(gpus, cpus, self._others if number == len(self.sizes) else None)
            self.wait_until_ready()

    def start_head(self) -> None:
        """Until it listens. Ray gives it 30 s, too, so one that has ended is started again."""
        self._spawn_head()

        def listens() -> bool:
            if self.head is None or not self.head.is_running():
                self._spawn_head()
            return ray_node.listens(self._gcs_port)

        self._until("the head listens", listens)

    def _spawn_head(self) -> None:
        sessions = Path(tempfile.mkdtemp(dir=self.folder, prefix="s"))
        command = ray_node.head_command(
            gcs_port=self._gcs_port,
            dashboard_port=self._dashboard_port,
            client_port=self._client_port,
            folder=sessions,
            store_bytes=STORE_BYTES,
        )
        self.head = self._run("head", command)

    def start_worker(self, gpus: int, cpus: int, others: Mapping[str, float] | None = None) -> None:
        """others: custom resources."""
        command = ray_node.worker_command(
            gcs_port=self._gcs_port, cpus=cpus, gpus=gpus, resource=RESOURCE, store_bytes=STORE_BYTES, others=others
        )
        started = self._run("workers", command)
        self.workers.append(started)
        self._size_of[started] = gpus, cpus, others

    def wait_until_ready(self) -> None:
        """All workers are known and idle, and jobs are accepted. Those that have ended are started again."""
        gateway = RayGateway(self.options(timeout_s=5))

        def is_ready() -> bool:
            self._start_ended_ones_again()
            try:
                known = [node for node in gateway.nodes() if node.may_train and node.free_cpus == node.total_cpus]
                gateway.job("of-nobody--a01")
            except RayUnreachable:
                return False
            return len(known) == len(self.workers)

        self._until("jobs are accepted", is_ready)
        gateway.close()

    def _start_ended_ones_again(self) -> None:
        """Whose raylet was killed; and Ray gives a node 30 s to start, which on a busy machine are too few."""
        if self.head is None or not self.head.is_running():
            self.start_head()
        for process in [worker for worker in self.workers if not worker.is_running()]:
            self.workers.remove(process)
            self.start_worker(*self._size_of.pop(process))

    def kill_worker(self) -> None:
        """As when its machine loses its power: all that runs there is gone at once."""
        worker = self.workers.pop(0)
        del self._size_of[worker]
        _end(worker)

    def kill_raylet(self, of: str) -> None:
        """Ray's own process of the node with this id crashes; the programs there are left behind for a moment."""
        below = with_descendants(worker.pid for worker in self.workers)
        _signal([pid for pid in below if is_raylet(pid, of)], signal.SIGKILL)

    def kill_head(self) -> None:
        if self.head is not None:
            _end(self.head)

    def restart(self, *, token: str | None = None) -> None:
        """A new head at the same addresses that remembers nothing, with new workers: the old ones do not know it.

        Args:
            token: another one; None: as before.
        """
        self.stop()
        if token is not None:
            self.token = token
            self._environment |= {"RAY_AUTH_TOKEN": token}
        self.start()

    @contextmanager
    def stalled_head(self) -> Iterator[None]:
        """Its processes stand still: connections are taken, and nothing is answered."""
        assert self.head is not None
        pids = with_descendants([self.head.pid]) - {self.head.pid}
        _signal(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(pids, signal.SIGCONT)

    def signal_head(self, name: str, number: signal.Signals) -> None:
        """To the one process of this name: gcs_server, raylet."""
        assert self.head is not None
        [pid] = [pid for pid in with_descendants([self.head.pid]) if _read(pid, "comm").strip() == name]
        _signal([pid], number)

    def stop(self) -> None:
        for worker in self.workers:
            _end(worker)
        self.workers.clear()
        self._size_of.clear()
        self.kill_head()

    def close(self) -> None:
        self.stop()
        os.close(self._held)
        os.close(self._lifeline)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, name: str, command: list[str]) -> Process:
        return Command(
            Part(name, tuple(command)),
            log=self.folder / f"{name}.log",
            environment=self._environment,
            lifeline=self._lifeline,
            folder=self.folder,
        )

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert self.head is not None
            if not self.head.is_running() or time.monotonic() > deadline:
                logs = "\n".join(tail(log) for log in sorted(self.folder.glob("*.log")))
                raise AssertionError(f"Never so, in {PATIENCE_S} s: {what}.\n{logs}")
            time.sleep(0.1)


@contextmanager
def running_cluster(nodes: Sequence[tuple[int, int]] = EIGHT_GPUS, **changes: object) -> Iterator[RayCluster]:
    """Up, and gone at the end with all that it runs."""
    cluster = RayCluster(nodes, **changes)  # type: ignore[arg-type]
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def _end(node: Process) -> None:
    """The second SIGTERM makes the subreaper kill whatever is below it; two that come together count as one."""
    while node.is_running():
        node.ask_to_stop()
        time.sleep(0.01)


def is_raylet(pid: int, node_id: str) -> bool:
    return _read(pid, "comm").strip() == "raylet" and node_id in _read(pid, "cmdline")


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
