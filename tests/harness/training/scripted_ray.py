"""A Ray cluster that does as a test says, and a bench on which the scheduler ticks against it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from app.homes.model import HomesOptions
from app.homes.service import Homes
from app.kit.clock import to_text
from app.kit.sql import Database
from app.training import store
from app.training.errors import RayRefused, RayUnreachable
from app.training.gateway import PlacementGroup, RayJob, RayStatus, Submission
from app.training.model import Attempt, Demand, Event, NewTask, Node, State, Task, Workload
from app.training.model.node_use import NodeUse
from app.training.service import Tasks
from app.training.service.cluster import ClusterPicture, ClusterView
from app.training.service.environments import Environments
from app.training.service.options import TrainingOptions
from app.training.service.scheduling import LogCopies, Scheduler, SchedulerContext
from app.training.service.scheduling.secrets import DiscreetGateway, Secrets

BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)
SPEC = "workload: script\ncode_path: /private/common/code/digits\n"
USER = "alice"
PPO = """\
workload: ppo
model_path: /private/common/code/digits
train_file: /private/common/code/digits/train.py
val_file: /private/common/code/digits/train.py
n_gpus_per_node: 8
"""
ALONE: Mapping[str, ScriptedRay] = MappingProxyType({})
"""The further clusters of most tests."""
TOO_FEW = "ValueError: Total available GPUs 0 is less than total desired GPUs 8"


@dataclass
class ScriptedJob:
    job: RayJob
    log: bytes = b""
    groups: list[PlacementGroup] = field(default_factory=list)


class ScriptedRay:
    """A Gateway. away: names of methods that find nobody; "*" for all. calls: which were called, in order."""

    def __init__(self, *gpus: int) -> None:
        self.sizes = {f"node{number}": some for number, some in enumerate(gpus)}
        self.taken: dict[str, float] = dict.fromkeys(self.sizes, 0)
        self.jobs: dict[str, ScriptedJob] = {}
        self.submissions: list[Submission] = []
        self.calls: list[tuple[str, str]] = []
        self.away: set[str] = set()
        self.refusal = ""
        self.remarks = ""
        self.keeps_answer = False
        """submit takes the job, and its answer is lost."""

    # --- what the scheduler asks ----------------------------------------------------------------------
    def submit(self, submission: Submission) -> None:
        self._ask("submit", submission.submission_id)
        if self.refusal:
            raise RayRefused(self.refusal)
        if submission.submission_id not in self.jobs:
            self.submissions.append(submission)
            self.jobs[submission.submission_id] = ScriptedJob(RayJob(submission.submission_id, RayStatus.PENDING))
        if self.keeps_answer:
            raise RayUnreachable("the answer is lost")

    def job(self, submission_id: str) -> RayJob | None:
        self._ask("job", submission_id)
        scripted = self.jobs.get(submission_id)
        return scripted.job if scripted else None

    def stop(self, submission_id: str) -> None:
        self._ask("stop", submission_id)
        scripted = self.jobs.get(submission_id)
        if scripted is not None and scripted.job.status is RayStatus.RUNNING:
            self.end(submission_id, RayStatus.STOPPED)

    def nodes(self) -> tuple[Node, ...]:
        self._ask("nodes")
        return tuple(Node(name, "", size, size - self.taken[name], 100, 100) for name, size in self.sizes.items())

    def use(self) -> dict[str, NodeUse]:
        self._ask("use")
        return {name: NodeUse(12.5, 3 << 30, 8 << 30, 50.0, 10 << 30, 80 << 30) for name in self.sizes}

    def placement_groups(self) -> tuple[PlacementGroup, ...]:
        self._ask("placement_groups")
        return tuple(group for job in self.jobs.values() for group in job.groups)

    def log_tail(self, job: RayJob, lines: int) -> bytes:
        self._ask("log_tail", job.submission_id)
        return b"".join(self.jobs[job.submission_id].log.splitlines(keepends=True)[-lines:])

    def log(self, job: RayJob) -> Iterator[bytes]:
        self._ask("log", job.submission_id)
        log = self.jobs[job.submission_id].log
        yield from (log[at : at + 1000] for at in range(0, len(log), 1000))

    def remark(self) -> str:
        return self.remarks

    def close(self) -> None:
        self.calls.append(("close", ""))

    # --- what the test says ---------------------------------------------------------------------------
    def run(self, submission_id: str, *, node: str = "node0", log: bytes = b"") -> None:
        scripted = self.jobs[submission_id]
        job_id = f"{len(self.jobs):08}"
        scripted.job = replace(
            scripted.job, status=RayStatus.RUNNING, ray_job_id=job_id, driver_node_id=node, started_ms=1
        )
        scripted.log += log

    def write(self, submission_id: str, log: bytes) -> None:
        self.jobs[submission_id].log += log

    def claim(self, submission_id: str, *bundles: tuple[str, float]) -> None:
        """Nowhere to be had: no bundles."""
        scripted = self.jobs[submission_id]
        placed = tuple((node, gpus, 0.0) for node, gpus in bundles)
        scripted.groups = [PlacementGroup(scripted.job.ray_job_id, bool(bundles), placed or (("", 1.0, 0.0),))]
        for node, gpus in bundles:
            self.taken[node] += gpus

    def end(self, submission_id: str, status: RayStatus = RayStatus.SUCCEEDED, **fields: Any) -> None:
        scripted = self.jobs[submission_id]
        for node, gpus, _ in (bundle for group in scripted.groups for bundle in group.bundles):
            if node:
                self.taken[node] -= gpus
        scripted.groups = []
        scripted.job = replace(scripted.job, status=status, **fields)

    def fail(self, submission_id: str, message: str, *, exit_code: int = 1, **fields: Any) -> None:
        self.end(
            submission_id,
            RayStatus.FAILED,
            message=message,
            exit_code=exit_code,
            error_type="JOB_ENTRYPOINT_COMMAND_ERROR",
            **fields,
        )

    def lose_node(self, submission_id: str) -> None:
        self.jobs[submission_id].log = b""
        self.end(submission_id, RayStatus.FAILED, error_type="JOB_SUPERVISOR_ACTOR_DIED", message="The node died")

    def forget(self, submission_id: str) -> None:
        self.end(submission_id, RayStatus.STOPPED)
        del self.jobs[submission_id]

    def _ask(self, what: str, submission_id: str = "") -> None:
        self.calls.append((what, submission_id))
        if what in self.away or "*" in self.away:
            raise RayUnreachable("Ray does not answer.")


class Shown(ClusterPicture):
    """In memory."""

    def __init__(self) -> None:
        self.names = [""]
        self.views: dict[str, ClusterView] = {}

    @property
    def view(self) -> ClusterView | None:
        """Of the default cluster."""
        return self.get()

    def put(self, view: ClusterView, name: str = "") -> None:
        self.views[name] = view

    def get(self, name: str = "") -> ClusterView | None:
        return self.views.get(name)


class Bench:
    """The scheduler, what it stands on, and a clock that only a test moves."""

    def __init__(
        self,
        database: Database,
        root: Path,
        ray: ScriptedRay,
        further: Mapping[str, ScriptedRay] = ALONE,
        **options: Any,
    ) -> None:
        self.database = database
        self.root = root
        self.ray = ray
        self.further = further
        self.now = BEGIN
        self._set_by_s = 0.0
        self.homes = Homes(HomesOptions(root), database, None)
        self.homes.files.create(USER)
        program = root / "common" / "code" / "digits" / "train.py"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("print('trained')\n")
        self.options = TrainingOptions(is_on=True, homes_root=str(root), clusters=("main", *further), **options)
        self.shown = Shown()
        self.succeeded: list[str] = []
        self.disabled: set[str] = set()
        self.log_bytes = 1 << 20
        self.secrets_folder = root.parent / "secrets"
        self.secrets = Secrets(self.secrets_folder)
        self.restart()

    def restart(self) -> None:
        """The process that schedules is another one: whatever the old one had in memory is gone."""
        copies = LogCopies(self.homes.files, self.log_bytes)
        told = lambda task: self.succeeded.append(task.task_id)  # noqa: E731
        context = SchedulerContext(
            self.options,
            self.database,
            self.homes,
            DiscreetGateway(self.ray, self.secrets),
            copies,
            told,
            self.enabled_of,
            Environments(self.database),
            self.secrets,
        )
        others = [
            replace(context, gateway=DiscreetGateway(ray, self.secrets), cluster=name)
            for name, ray in self.further.items()
        ]
        self.scheduler = Scheduler(context, self.shown, others, self._steady)

    def enabled_of(self, users: Collection[str]) -> Collection[str]:
        return {user for user in users if user not in self.disabled}

    def tick(self, after_s: float = 0) -> None:
        self.now += timedelta(seconds=after_s)
        self.scheduler.tick(self.now)

    def set_clock(self, by_s: float) -> None:
        """The clock is set, while no time passes."""
        self.now += timedelta(seconds=by_s)
        self._set_by_s += by_s

    def _steady(self) -> float:
        return (self.now - BEGIN).total_seconds() - self._set_by_s

    def add(self, name: str, gpus: int = 8, nodes: int = 1, **fields: Any) -> str:
        """By groups, as verl claims, unless demand is given."""
        demand = fields.pop("demand", Demand(nodes, gpus, 0))
        workload = fields.pop("workload", Workload.SCRIPT)
        new = NewTask(name, fields.pop("user", USER), workload, fields.pop("spec", SPEC), demand, **fields)
        with self.database.write() as conn:
            return store.add_task(conn, new, to_text(self.now)).task_id

    def running(self, name: str, gpus: int = 8, **fields: Any) -> str:
        """A task whose first attempt runs. Returns the id of its submission."""
        self.add(name, gpus, **fields)
        self.tick()
        submission_id = f"{name}--a01"
        self.ray.run(submission_id)
        self.tick()
        assert self.state(name) is State.RUNNING
        return submission_id

    def cancel(self, name: str) -> None:
        """As the API does it."""
        task = self.task(name)
        with self.database.write() as conn:
            at = to_text(self.now)
            assert store.apply(conn, task, Event.CANCEL, at, cancel_requested_at=at) is not None

    def release(self, name: str, *, later: timedelta = timedelta()) -> None:
        """later: as though it was done so much later."""
        Tasks(self.options, self.database, self.homes, lambda: None).changes.release(USER, name, now=self.now + later)

    def task(self, name: str) -> Task:
        with self.database.read() as conn:
            task = store.get_task(conn, name)
        assert task is not None
        return task

    def state(self, name: str) -> State:
        return self.task(name).state

    def attempts(self, name: str) -> list[Attempt]:
        with self.database.read() as conn:
            return store.attempts_of(conn, name)

    def events(self, name: str, kind: str) -> list[dict[str, Any]]:
        with self.database.read() as conn:
            return [event.detail for event in store.events_of(conn, name) if event.kind == kind]

    def folder(self, submission_id: str) -> Path:
        return self.root / "users" / USER / "jobs" / submission_id

    def log(self, submission_id: str) -> bytes:
        return (self.folder(submission_id) / "driver.log").read_bytes()

    def submitted(self) -> list[str]:
        return [submission.submission_id for submission in self.ray.submissions]
