"""A deployment whose processes are kept running by the product's own supervisor, as `modelmill up` does it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

import httpx
import redis
from dramatiq import Message

from app.kit.clock import now
from app.kit.queue.messages import Queue
from app.standalone.data_folder import DataFolder
from app.standalone.process import Part
from app.standalone.processes import PROCESSES
from app.standalone.supervisor import Supervisor
from tests.harness.deployment import DRAMATIQ
from tests.harness.faults.deployment import ACTORS, FaultDeployment, Job, parent
from tests.harness.paths import REPOSITORY
from tests.harness.processes import is_alive
from tests.harness.until import until

SCHEDULER = "scheduler"
WEB = "web"
PULSE_S = 0.5


class SupervisedDeployment(FaultDeployment):
    """One worker for each stage but `bie` of them for BIE, the scheduler and the web.

    The sweep is pulsed more often than in production, where it would take a test a minute to see one.
    """

    def __init__(self, folder: Path, *, bie: int = 1, is_patient: bool = False, **settings: str) -> None:
        super().__init__(folder, **settings)
        self.env |= {"CHAOS_SUSPECT_S": "4", **({"CHAOS_PATIENT": "1"} if is_patient else {})}
        data = DataFolder(self.folder / "data", self.folder / "data" / "run")
        data.prepare()
        self.notices: list[str] = []
        self.supervisor = Supervisor(data, lambda _: self.env, cwd=REPOSITORY, notice=self.notices.append)
        self.expected = {"onnx": 1, "bie": bie, "nef": 1, "done": 1}
        stages = {f"{queue}-{n}": queue for queue in ("onnx", "bie", "nef") for n in range(self.expected[queue])}
        workers = [Part(name, tuple(self.command(queue))) for name, queue in stages.items()]
        scheduler = (DRAMATIQ, ACTORS, *PROCESSES[SCHEDULER].arguments[1:])
        self.line_parts = [*workers, Part(SCHEDULER, scheduler), Part(WEB, self.web_command())]
        self.sweeps = 0
        self._ended = threading.Event()
        self._is_calm = threading.Event()
        self._pulse = threading.Thread(target=self._sweep_on_and_on, daemon=True)

    def __enter__(self) -> SupervisedDeployment:
        self.supervisor.start(self.line_parts)
        self._pulse.start()
        try:
            self.man()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._pulse.join()
        self.supervisor.stop(grace_s=10)
        super().__exit__(kind, error, trace)

    def web_command(self, port: int | None = None) -> tuple[str, ...]:
        return (
            sys.executable,
            "-m",
            "uvicorn",
            "app.main:create_app",
            "--factory",
            "--no-access-log",
            "--port",
            str(port or self.web_port),
            "--timeout-graceful-shutdown",
            "5",
        )

    def roots(self) -> list[int]:
        return [*super().roots(), *self.supervisor.pids().values()]

    def man(self) -> None:
        """Nobody does anything: the workers must come back by themselves."""
        until(self._is_manned, what=lambda: f"all workers are there again: {self.container.store.workers()}")
        until(self._web_answers, what="the web answers")

    @contextlib.contextmanager
    def calm(self) -> Iterator[None]:
        self._is_calm.set()
        try:
            yield
        finally:
            self._is_calm.clear()

    def line(self) -> None:
        self.man()

    def clear(self) -> None:
        for path in self.holds.iterdir():
            path.unlink()
        for record in self.container.store.active():
            self.container.store.delete(record.job_id)

    def shown(self, job: Job) -> tuple[int, dict[str, Any]]:
        answer = httpx.get(f"{self.url}/jobs/{job.job_id}")
        return answer.status_code, answer.json()

    def below(self, part: str) -> list[int]:
        """The command of a part and, of a worker, the process that works. Empty while it starts."""
        subreaper = self.supervisor.pids().get(part, 0)
        working = [int(str(worker["pid"])) for worker in self.container.store.workers().values()]
        pids = [pid for pid in working if is_alive(pid) and parent(parent(pid)) == subreaper]
        return [parent(pids[0]), pids[0]] if pids else []

    def pid(self, part: str) -> int:
        """Of the process that works."""
        until(lambda: self.below(part), what=f"{part} is there")
        return self.below(part)[-1]

    def kill(self, part: str, *, master: bool = False) -> None:
        """kill -9 of a worker's process, or of the master process above it; it had run for long."""
        until(lambda: self.below(part), what=f"{part} is there")
        pid = self.below(part)[0 if master else 1]
        self.has_settled(part)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not is_alive(pid), what="it is dead")

    def kill_web(self) -> None:
        self.has_settled(WEB)
        subreaper = self.supervisor.pids()[WEB]
        until(lambda: self.child_of(subreaper), what="the web runs")
        os.kill(self.child_of(subreaper), signal.SIGKILL)

    @contextlib.contextmanager
    def without_web(self) -> Iterator[None]:
        """It is killed, and nobody sees that before the block ends."""
        subreaper = self.supervisor.pids()[WEB]
        os.kill(subreaper, signal.SIGSTOP)
        try:
            self.kill_web()
            yield
        finally:
            os.kill(subreaper, signal.SIGCONT)

    def has_settled(self, part: str) -> None:
        """So that the supervisor does not make it pause for having died so often."""
        self.supervisor.watched[part].started_at = 0.0

    @staticmethod
    def child_of(pid: int) -> int:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def swept(self, times: int) -> None:
        """Wait until so many sweeps have come and gone."""
        goal = self.sweeps + times + 1  # one may have begun before
        until(lambda: self.sweeps >= goal, what="the sweeper swept")

    def _is_manned(self) -> bool:
        try:
            workers = self.container.store.workers().values()
        except redis.RedisError:
            return False
        return Counter(str(worker["queue"]) for worker in workers if is_alive(int(str(worker["pid"])))) == self.expected

    def _sweep_on_and_on(self) -> None:
        while not self._ended.wait(PULSE_S):
            with contextlib.suppress(redis.RedisError):
                if not self._is_calm.is_set() and not self.container.broker.waiting(Queue.PERIODIC):
                    self.sweeps += 1
                    self.container.broker.enqueue(_pulse())


def _pulse() -> Message[None]:
    """As periodiq sends it."""
    options = {"scheduled_at": str(now()), "redis_message_id": str(uuid4())}
    return Message(queue_name=Queue.PERIODIC, actor_name="sweep", args=(), kwargs={}, options=options)
