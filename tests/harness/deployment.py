"""The product as processes: a Valkey server, workers and a web process of our own, in a folder of their own.

For tests and measurements; what users start is `modelmill up`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import httpx
from pydantic import SecretStr

from app.kit.queue.messages import Queue
from app.settings import Settings
from app.standalone.processes import STAGES
from tests.harness import processes
from tests.harness.forked import Forked
from tests.harness.migrated import migrated_file
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port
from tests.harness.valkey import Valkey

START_S, LOG_CHARS = 150, 2000
DRAMATIQ = str(Path(sys.executable).with_name("dramatiq"))
INSTALLED = {DRAMATIQ: "dramatiq.cli:main", str(Path(DRAMATIQ).with_name("periodiq")): "periodiq:entrypoint"}
"""Commands by what they call."""
MODULES = {"uvicorn": "uvicorn.main"}
"""Modules that run another one's main()."""
Process = subprocess.Popen[bytes] | Forked


class Deployment:
    """settings: further MODELMILL_* variables without the prefix. Unless they name a database, one is there already.

    has_copies: its Python programs begin as copies of one that has imported them, which halves what a start costs. They
    are called as their commands call them; where a test is about the processes themselves they are started as such.
    """

    has_copies = True
    sandbox_idle_s = "0"
    """Otherwise the libraries of checks and stages are loaded when the first of them runs, and not at the start."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.processes: list[Process] = []
        self.valkey = Valkey(folder)
        self.redis = self.valkey.client
        self.redis_port, self.web_port = self.valkey.port, free_port()
        self.url = f"http://127.0.0.1:{self.web_port}"
        database = folder / "data" / "modelmill.db"
        if "database_url" not in settings and not database.exists():  # it may take up the folder of another
            migrated_file(database)
        self.env = {
            **os.environ,
            "MODELMILL_REDIS_URL": f"redis://127.0.0.1:{self.redis_port}/0",
            "MODELMILL_DATA_DIR": str(self.folder / "data"),
            "MODELMILL_SECRET_KEY": "bench",
            "MODELMILL_CACHE_MAX_BYTES": "0",  # the same model again is to be converted again, unless a test asks
            "MODELMILL_PORT": str(self.web_port),
            "MODELMILL_SANDBOX_IDLE_S": self.sandbox_idle_s,
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
        key = SecretStr(self.env["MODELMILL_SECRET_KEY"])
        return Settings(data_dir=self.folder / "data", redis_url=self.env["MODELMILL_REDIS_URL"], secret_key=key)

    def start(self, command: list[str]) -> Process:
        file = self.folder / f"{len(self.processes)}.log"
        target, arguments = _called(command)
        is_traced = any(name.startswith("OTEL_") for name in self.env)
        if target and self.has_copies and not is_traced:
            process: Process = Forked(target, arguments, environment=self.env, log=file)
        else:
            with file.open("wb") as log:
                process = subprocess.Popen(
                    command, env=self.env, cwd=REPOSITORY, stdout=log, stderr=log, start_new_session=True
                )
        self.processes.append(process)
        return process

    def whole(self) -> None:
        """Start all that conversions need at once: a worker for each stage, the scheduler and, as the last, the web."""
        queues = (*STAGES, Queue.DONE)
        started = [self._start_worker("actors", queue) for queue in queues]
        self._until_up(lambda: self._live() == len(queues) and self._web_answers(), [*started, self._start_web()])

    def workers(self, module: str, **counts: int) -> None:
        """Start `count` one-thread workers per queue and wait until they have said that they live."""
        started = [self._start_worker(module, queue) for queue, count in counts.items() for _ in range(count)]
        self._until_up(lambda: self._live() == len(started), started)

    def another_worker(self, queue: str) -> None:
        """One more beside those that live, for tests of what two do at once."""
        live = self._live()
        process = self._start_worker("actors", queue)
        self._until_up(lambda: self._live() > live, [process])

    def web(self) -> Process:
        process = self._start_web()
        self._until_up(self._web_answers, [process])
        return process

    def _start_worker(self, module: str, queue: str) -> Process:
        return self.start([DRAMATIQ, module, "--queues", queue, "--processes", "1", "--threads", "1"])

    def _start_web(self) -> Process:
        command = [sys.executable, "-m", "uvicorn", "app.main:create_app", "--factory", "--no-access-log"]
        command += ["--timeout-keep-alive", "30"]  # clients give connections up first: none is closed under a request
        return self.start([*command, "--port", str(self.web_port)])

    def _live(self) -> int:
        return len(list(self.redis.scan_iter("worker:*")))

    def _web_answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def _until_up(self, is_up: Callable[[], bool], started: Sequence[Process]) -> None:
        deadline = time.monotonic() + START_S
        while not is_up():
            ended = [process for process in started if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                texts = [self._log(process).read_text(errors="replace") for process in ended or started]
                raise RuntimeError("The deployment did not come up.\n" + "\n".join(text[-LOG_CHARS:] for text in texts))
            time.sleep(0.05)

    def _log(self, process: Process) -> Path:
        return self.folder / f"{self.processes.index(process)}.log"

    @contextmanager
    def paused(self, process: Process) -> Iterator[None]:
        """This worker stands still, and what is sent to its queue stays there.

        A worker that waits for messages has asked Redis to fetch the next one as soon as it comes, and Redis would do
        so for one that is stopped: it is told that nothing came.
        """
        pids = processes.with_descendants([process.pid])
        try:
            processes.stop(pids)
            ports = processes.local_ports(pids)
            for client in self.redis.client_list():
                if int(client["addr"].rpartition(":")[2]) in ports and "b" in client["flags"]:
                    self.redis.client_unblock(int(client["id"]))
            yield
        finally:
            self.go_on(process)

    @staticmethod
    def go_on(process: Process) -> None:
        processes.send(processes.with_descendants([process.pid]), signal.SIGCONT)

    def until_quiet(self) -> None:
        """Until what was started does nothing any more: for measurements."""
        processes.until_quiet(processes.with_descendants(process.pid for process in self.processes))


def _called(command: list[str]) -> tuple[str, list[str]]:
    """What a command calls, and its arguments: nothing where it is no program in Python that is known here."""
    program, *arguments = command
    if program == sys.executable and arguments[0] == "-m":
        return (f"{MODULES.get(arguments[1], arguments[1])}:main", arguments[2:])
    return INSTALLED.get(program, ""), arguments


def submit_pending(deployment: Deployment) -> None:
    """What the controllers do with new sweeps, where none run."""
    from app.bootstrap.container import assemble

    container = assemble(deployment.settings())
    container.sweeps.submit_pending()
    container.close()


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
