"""The product as processes: a Valkey server, workers and a web process of our own, in a folder of their own.

For tests and measurements; what users start is `modelmill up`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import httpx

from app.settings import Settings
from tests.harness import processes
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port
from tests.harness.valkey import Valkey

DRAMATIQ = str(Path(sys.executable).with_name("dramatiq"))


class Deployment:
    """settings: further MODELMILL_* variables without the prefix."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.valkey = Valkey(folder)
        self.redis = self.valkey.client
        self.redis_port, self.web_port = self.valkey.port, free_port()
        self.url = f"http://127.0.0.1:{self.web_port}"
        self.env = {
            **os.environ,
            "MODELMILL_REDIS_URL": f"redis://127.0.0.1:{self.redis_port}/0",
            "MODELMILL_DATA_DIR": str(self.folder / "data"),
            "MODELMILL_SECRET_KEY": "bench",
            "MODELMILL_PORT": str(self.web_port),
            "PYTHONPATH": str(REPOSITORY),
            **{f"MODELMILL_{name.upper()}": value for name, value in settings.items()},
        }

    def __enter__(self) -> Deployment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in reversed(self.processes):
                if process.poll() is None:
                    os.killpg(process.pid, number)
            for process in self.processes:
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    continue
        self.valkey.kill()

    def settings(self) -> Settings:
        return Settings(data_dir=self.folder / "data", redis_url=self.env["MODELMILL_REDIS_URL"])

    def start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=self.env, cwd=REPOSITORY, stdout=log, stderr=log, start_new_session=True
            )
        self.processes.append(process)
        return process

    def workers(self, module: str, **counts: int) -> None:
        """Start `count` one-thread workers per queue and wait until they have said that they live."""
        for queue, count in counts.items():
            for _ in range(count):
                self.start([DRAMATIQ, module, "--queues", queue, "--processes", "1", "--threads", "1"])
        _until(lambda: len(list(self.redis.scan_iter("worker:*"))) == sum(counts.values()))

    @contextmanager
    def paused(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """This worker stands still, and what is sent to its queue stays there.

        A worker that waits for messages has asked Redis to fetch the next one as soon as it comes, and Redis would do
        so for one that is stopped: it is told that nothing came.
        """
        pids = processes.with_descendants([process.pid])
        processes.stop(pids)
        ports = processes.local_ports(pids)
        for client in self.redis.client_list():
            if int(client["addr"].rpartition(":")[2]) in ports and "b" in client["flags"]:
                self.redis.client_unblock(int(client["id"]))
        try:
            yield
        finally:
            self.go_on(process)

    @staticmethod
    def go_on(process: subprocess.Popen[bytes]) -> None:
        processes.send(processes.with_descendants([process.pid]), signal.SIGCONT)

    def until_quiet(self) -> None:
        """Until what was started does nothing any more: for measurements."""
        processes.until_quiet(processes.with_descendants(process.pid for process in self.processes))

    def web(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "uvicorn", "app.main:create_app", "--factory", "--no-access-log"]
        process = self.start([*command, "--port", str(self.web_port)])
        _until(self._web_answers)
        return process

    def _web_answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.TransportError:
            return False


def _until(condition: object, timeout_s: float = 60) -> None:
    assert callable(condition)
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("the deployment did not come up; are its ports free?")
        time.sleep(0.05)


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
