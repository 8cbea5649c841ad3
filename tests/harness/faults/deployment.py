"""A deployment for the fault tests: real workers that can be killed one by one, jobs that do as they are told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import httpx

from app.bootstrap.container import assemble
from app.conversion import model, object_keys
from app.conversion.model import Artifact, JobRecord, Stage, StageState
from app.conversion.options import Options
from app.kit.clock import now, to_text
from app.main import create_app
from tests.harness.deployment import DRAMATIQ, Deployment, Process
from tests.harness.faults.stages import NOTES, is_locked
from tests.harness.processes import Tracked, is_alive
from tests.harness.surroundings import MARK
from tests.harness.until import until

ACTORS = "tests.harness.faults.actors"
OWNER = "local"


@dataclass(frozen=True)
class WorkerProcess:
    """One `dramatiq` command: its master, and the one worker process below it."""

    queue: str
    master: Process
    process: Tracked

    @property
    def child(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """kill -9 of the whole of it, and of nothing that it started elsewhere."""
        self.master.kill()
        self.kill_child()
        self.master.wait()

    def kill_child(self) -> None:
        self.process.kill()

    def is_alive(self) -> bool:
        return self.master.poll() is None and self.process.is_alive()


@dataclass(frozen=True)
class Job:
    job_id: str
    notes: Path

    def starts(self) -> Counter[str]:
        """How often each stage was begun."""
        return Counter(self._lines("starts"))

    def processes(self) -> list[str]:
        """What told of itself: the children of the stage, and the stage when it hangs."""
        return self._lines("toolchain")

    def hangs(self) -> bool:
        return len(self.processes()) == 2

    def is_alive(self) -> bool:
        """Any of these."""
        return is_locked(self.notes / "alive")

    def release(self, gate: str = "gate") -> None:
        (self.notes / gate).touch()

    def _lines(self, name: str) -> list[str]:
        path = self.notes / name
        return path.read_text().split() if path.exists() else []


class FaultDeployment(Deployment):
    """settings: further MODELMILL_* variables without the prefix, or others than its impatient ones.

    Its fork servers go without the libraries of the real toolchains, which no stage here uses.
    """

    actors = ACTORS
    sandbox_idle_s = "0"

    def __init__(self, folder: Path, **settings: str) -> None:
        impatient = {"worker_ttl_s": "3", "shutdown_grace_s": "1"}
        super().__init__(folder, **{"node_name": "here", **impatient, **settings})
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.env["TMPDIR"] = str(self.temporary)
        self.env[MARK] = self.mark = f"of {self.folder}"
        (self.folder / NOTES).mkdir()
        self.container = assemble(self.settings())
        self.web_app = create_app(self.settings())
        self.clocks = self.folder / "data" / "clocks"
        self.clocks.mkdir(parents=True)
        self.holds = self.folder / "data" / "holds"
        self.holds.mkdir(parents=True)
        self.running: list[WorkerProcess] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.container.close()
        self.web_app.state.container.close()
        super().__exit__(kind, error, trace)

    def worker(self, queue: str, **settings: str) -> WorkerProcess:
        """Start one, as an operator does, and wait until it has said that it lives.

        settings: MODELMILL_* variables, without the prefix, that are for this one only.
        """
        return self.living(self.launch(queue, **settings))[0]

    def launch(self, queue: str, **settings: str) -> Process:
        """The same without the wait."""
        usual = self.env
        self.env = {**usual, **{f"MODELMILL_{name.upper()}": value for name, value in settings.items()}}
        try:
            return self.start(self.command(queue))
        finally:
            self.env = usual

    def living(self, *masters: Process) -> list[WorkerProcess]:
        """Wait until these have said that they live."""
        until(
            lambda: all(map(self._child_of, masters)), what=lambda: f"the workers started: {[*map(self._log, masters)]}"
        )
        made = [WorkerProcess(_queue_of(master), master, Tracked(self._child_of(master) or 0)) for master in masters]
        self.running += made
        return made

    def at_work(self, job: Job) -> WorkerProcess:
        """The worker that has the job in hand."""
        name = self.record(job).current.worker or ""
        pid = self.container.store.workers()[name]["pid"]
        return next(worker for worker in self.running if worker.child == pid)

    def command(self, queue: str) -> list[str]:
        return [DRAMATIQ, self.actors, "--queues", queue, "--processes", "1", "--threads", "1"]

    def _child_of(self, master: Process) -> int | None:
        living = [worker["pid"] for worker in self.container.store.workers().values()]
        return next((int(str(pid)) for pid in living if parent(int(str(pid))) == master.pid), None)

    def line(self) -> None:
        """See that each of the light queues has its one worker."""
        manned = {worker.queue for worker in self.running if worker.is_alive()}
        self.living(*(self.launch(queue) for queue in ("onnx", "nef", "done") if queue not in manned))

    @contextlib.contextmanager
    def for_a_test(self) -> Iterator[Self]:
        """Manned before it, going again and cleared after it."""
        self.line()
        yield self
        self.valkey.process.send_signal(signal.SIGCONT)
        self.clear()

    def clear(self) -> None:
        """Kill the BIE workers and whatever is no longer whole, drop all holds and all jobs."""
        for path in self.holds.iterdir():
            path.unlink()
        for worker in self.running:
            if worker.queue == "bie" or not worker.is_alive():
                worker.kill()
        self.running = [worker for worker in self.running if worker.is_alive()]
        for record in self.container.store.active():
            self.container.store.delete(record.job_id)

    def hold(self, name: str) -> None:
        (self.holds / name).touch()

    def reached(self, name: str) -> bool:
        return (self.holds / f"{name}.reached").exists()

    def release(self, name: str) -> None:
        (self.holds / name).unlink()

    def submit(self, **plan: str) -> Job:
        """What a submission does once its inputs are checked, with a plan instead of a model."""
        job = self._create(**plan)
        self.container.conversion.dispatch.enqueue(Stage.ONNX, job.job_id)
        return job

    def taken_by_a_host_that_never_comes_back(self) -> Job:
        job = self._create()
        assert self.container.store.apply(job.job_id, model.claimed(Stage.ONNX, worker="nowhere/onnx/0"))
        return job

    def _create(self, **plan: str) -> Job:
        job = Job(str(uuid4()), self.folder / NOTES / str(uuid4()))
        job.notes.mkdir()
        text = json.dumps({"notes": str(job.notes), **plan}).encode()
        self.container.objects.put(object_keys.input_(job.job_id, object_keys.MODEL), [text])
        self.container.objects.put(object_keys.input_(job.job_id, object_keys.IMAGES), [_EMPTY_ZIP])
        self.container.objects.put(object_keys.owned(OWNER, job.job_id), [])
        inputs = {object_keys.MODEL: Artifact(object_keys.input_(job.job_id, object_keys.MODEL), len(text), "")}
        record = model.submitted(
            job.job_id, now=to_text(now()), owner=OWNER, name="", tags=(), options=Options(), inputs=inputs, intake={}
        )
        self.container.store.create(record, score=time.time() * 1e6)
        return job

    def record(self, job: Job) -> JobRecord:
        return self.container.store.require(job.job_id)

    def ended(self, job: Job) -> JobRecord:
        until(lambda: self.record(job).is_terminal, what="the job ended")
        return self.record(job)

    def shown(self, job: Job) -> tuple[int, dict[str, Any]]:
        """What the API answers when it is asked about the job: HTTP status and JSON."""
        answer = asyncio.run(self._get(f"/jobs/{job.job_id}"))
        return answer.status_code, answer.json()

    async def _get(self, path: str) -> httpx.Response:
        transport = httpx.ASGITransport(self.web_app)
        async with httpx.AsyncClient(transport=transport, base_url=self.url) as client:
            return await client.get(path)

    def roots(self) -> list[int]:
        """The processes that were started here and have not ended; what runs below none of them is an orphan."""
        return [process.pid for process in self.processes if process.poll() is None]

    def calm(self) -> AbstractContextManager[None]:
        """Meanwhile the deployment sends nothing by itself."""
        return nullcontext()

    def man(self) -> None:
        """See that every queue has a living worker, as whoever keeps processes running does."""
        self.line()
        if not any(worker.queue == "bie" and worker.is_alive() for worker in self.running):
            self.worker("bie")

    def jump(self, pid: int, seconds: float) -> None:
        """Shift the wall clock of one worker process; its monotonic clock runs on."""
        draft = self.clocks / f"{pid}.draft"
        draft.write_text(str(seconds))
        draft.rename(self.clocks / str(pid))

    def runs(self, job: Job, stage: Stage = Stage.BIE) -> bool:
        record = self.record(job)
        return record.stage is stage and record.current.state is StageState.RUNNING

    def works_on(self) -> None:
        """The next job passes: nothing of the fault before has stayed."""
        job = self.submit()
        record = self.ended(job)
        assert record.status == "COMPLETED", record.error
        assert job.starts() == {"onnx": 1, "bie": 1, "nef": 1}

    def work_folder(self, job: Job) -> Path:
        return self.folder / "data" / "work" / job.job_id

    def log(self, worker: WorkerProcess) -> str:
        return self._log_text(worker.master)

    def _log_text(self, master: Process) -> str:
        return (self.folder / f"{self.processes.index(master)}.log").read_text()


def _queue_of(master: Process) -> str:
    assert isinstance(master.args, list)
    return str(master.args[master.args.index("--queues") + 1])


_EMPTY_ZIP = b"PK\x05\x06" + bytes(18)


def are_gone(pids: list[int]) -> bool:
    return not any(is_alive(pid) for pid in pids)


def parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["X", "0"]
