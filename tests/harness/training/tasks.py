"""Tasks in every state, as a scheduler would have left them: made in the database and the home, where no cluster is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from redis import Redis

from app.homes.model import HomesOptions
from app.homes.retention import Folders
from app.kit.clock import now, to_text
from app.kit.sql import Database
from app.training import store
from app.training.model import (
    Attempt,
    Conversion,
    Demand,
    Event,
    FailureKind,
    NewTask,
    Node,
    Task,
    WaitingCode,
    WaitingReason,
    Workload,
    submission_id,
)
from app.training.service import ClusterPicture, ClusterView, Holder
from tests.harness.deployment import Deployment

SPEC = """\
# the first one
workload: {workload}
name: {name}
model_id: Qwen/Qwen2.5-0.5B-Instruct
train_file: /private/users/{user}/datasets/train.parquet
val_file: /private/users/{user}/datasets/test.parquet
nnodes: {nodes}
n_gpus_per_node: {gpus}
total_epochs: 1
"""
NUMBERS = count(1)
SHORTAGE = "Total available GPUs 4.0 is less than total desired GPUs 8"
TRACEBACK = """\
Traceback (most recent call last):
  File "/private/common/code/verl/verl/trainer/main_ppo.py", line 210, in main
    raise RuntimeError("loss is not finite at step 17")
RuntimeError: loss is not finite at step 17"""
DAY_S = 86400


@dataclass
class TaskBuilder:
    """One task that is led through its life; each step so many seconds after the one before."""

    database: Database
    deployment: Deployment
    task: Task
    at: datetime
    attempt: Attempt | None = None

    def after(self, seconds: float) -> TaskBuilder:
        self.at += timedelta(seconds=seconds)
        return self

    def do(self, event: Event, **fields: Any) -> TaskBuilder:
        with self.database.write() as conn:
            changed = store.apply(conn, self.task, event, to_text(self.at), **fields)
        assert changed is not None
        self.task = changed
        return self

    def admit(self) -> TaskBuilder:
        number = self.task.latest_attempt_no + 1
        self.attempt = Attempt(self.task.task_id, number, submission_id(self.task.task_id, number), to_text(self.at))
        self.do(Event.ADMIT, latest_attempt_no=number)
        with self.database.write() as conn:
            store.add_attempt(conn, self.attempt)
        folders(self.deployment, self.database).begun(self.task.user, self.attempt.folder, now=self.at)
        self.path.mkdir(parents=True, exist_ok=True)
        return self

    def note(self, **fields: Any) -> TaskBuilder:
        assert self.attempt is not None
        with self.database.write() as conn:
            self.attempt = store.change_attempt(conn, self.attempt, **fields)
        return self

    def run(self) -> TaskBuilder:
        self.admit().after(1).do(Event.ACCEPT).after(2).do(Event.START)
        return self.note(ray_status="RUNNING", started_at=to_text(self.at))

    def end(
        self, event: Event, status: str, kind: FailureKind | None = None, message: str = "", **fields: Any
    ) -> TaskBuilder:
        assert self.attempt is not None
        self.note(ray_status=status, failure_kind=kind, message=message, ended_at=to_text(self.at))
        folders(self.deployment, self.database).ended(self.task.user, self.attempt.folder, self.at)
        if event is Event.FAIL:
            fields = {"failure_kind": kind, "error_summary": message.splitlines()[-1] if message else "", **fields}
        return self.do(event, **fields)

    def log(self, text: str) -> TaskBuilder:
        (self.path / "driver.log").write_text(text)
        return self.note(log_bytes=len(text))

    def leave(self, name: str, data: bytes = b"onnx") -> TaskBuilder:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return self

    def checkpoint(self, *steps: int) -> TaskBuilder:
        """What verl has saved at these steps; the folder is that of the task."""
        folders(self.deployment, self.database).begun(self.task.user, self.task.task_id, now=self.at)
        for step in steps:
            file = self.path.parent / self.task.task_id / "checkpoints" / f"global_step_{step}" / "model.pt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"x" * 1000)
        return self

    def converted(self, **fields: Any) -> TaskBuilder:
        with self.database.write() as conn:
            made = Conversion(self.task.task_id, self.task.latest_attempt_no, "model.onnx", to_text(self.at), **fields)
            store.put_conversion(conn, made)
        return self

    @property
    def path(self) -> Any:
        assert self.attempt is not None
        return self.deployment.settings().homes / "users" / self.task.user / "jobs" / self.attempt.folder


def folders(deployment: Deployment, database: Database) -> Folders:
    return Folders(database, HomesOptions(deployment.settings().homes))


def empty_line(deployment: Deployment) -> None:
    """Whoever waits gives up, whatever test it is of: places are counted over all users."""
    with database_of(deployment) as database, database.write() as conn:
        for place in store.queue(conn):
            task = store.get_task(conn, place.task_id)
            assert task is not None
            assert store.apply(conn, task, Event.CANCEL, to_text(now())) is not None


@contextmanager
def database_of(deployment: Deployment) -> Iterator[Database]:
    database = Database(deployment.settings().database)
    try:
        yield database
    finally:
        database.close()


def begin(
    deployment: Deployment,
    database: Database,
    user: str,
    name: str,
    *,
    ago_s: float,
    workload: Workload = Workload.PPO,
    nodes: int = 1,
    gpus: int = 8,
    spec: str = "",
) -> TaskBuilder:
    at = now() - timedelta(seconds=ago_s)
    task_id = f"mvp2-{user}-{workload}-{at:%Y%m%d-%H%M%S}-{next(NUMBERS):04x}"
    text = spec or SPEC.format(workload=workload, name=name or "none", user=user, nodes=nodes, gpus=gpus)
    new = NewTask(task_id, user, workload, text, Demand(nodes, gpus, 3 * gpus, 1), name)
    with database.write() as conn:
        task = store.add_task(conn, new, to_text(at))
    return TaskBuilder(database, deployment, task, at)


def waits(builder: TaskBuilder, code: WaitingCode, **facts: Any) -> TaskBuilder:
    return builder.after(2).do(Event.WAIT, waiting=WaitingReason(code, facts))


def every_state(deployment: Deployment, user: str) -> dict[str, str]:
    """Name of the builder → id of its task."""
    with database_of(deployment) as database:
        builders = dict(_builders(deployment, database, user))
    return {name: builder.task.task_id for name, builder in builders.items()}


def metric_rows(steps: int = 60) -> str:
    """What verl's file logger leaves of so many steps."""
    rows = (
        {
            "step": step,
            "data": {
                "train/loss": 3 / step**0.5 + 0.1 * (step % 5),
                "val/accuracy": 1 - 0.8 / step**0.3,
                "train/lr": 1e-5 * (1 - step / steps),
                "train/grad_norm": 1 + 0.2 * (step % 7),
                "timing_s/step": 27.0 + step % 3,
                **{f"perf/throughput_{rank}": 900.0 + 10 * rank + step for rank in range(9)},
            },
        }
        for step in range(1, steps + 1)
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


def _builders(deployment: Deployment, database: Database, user: str) -> Iterator[tuple[str, TaskBuilder]]:
    def builder(name: str, ago_s: float, **options: Any) -> TaskBuilder:
        return begin(deployment, database, user, name, ago_s=ago_s, **options)

    lines = "".join(f"step {step}: loss {1 / step:.4f} reward {step / 50:.3f}\n" for step in range(1, 51))
    yield (
        "succeeded",
        builder("digits with an ONNX", 2 * DAY_S, workload=Workload.SFT, gpus=1)
        .after(9)
        .run()
        .log(lines)
        .leave("metrics.jsonl", metric_rows().encode())
        .leave("model.onnx")
        .leave("images/0.png")
        .after(1710)
        .end(Event.SUCCEED, "SUCCEEDED")
        .note(exit_code=0),
    )
    yield (
        "converted",
        builder("converted already", DAY_S, workload=Workload.SFT, gpus=1)
        .after(9)
        .run()
        .log(lines)
        .leave("model.onnx")
        .leave("export/large.onnx")
        .after(700)
        .end(Event.SUCCEED, "SUCCEEDED")
        .after(3)
        .converted(job_id="6f1c2a4e-1111-4222-8333-444455556666")
        .after(2)
        .converted(problem="There are no reference pictures in it. Send pictures, .npy or .npz files."),
    )
    yield (
        "failed",
        builder("loss explodes", 3 * 3600)
        .after(60)
        .run()
        .log(lines + TRACEBACK + "\n")
        .leave("metrics.jsonl", metric_rows().encode())
        .checkpoint(20, 40, 60)
        .after(900)
        .end(Event.FAIL, "FAILED", FailureKind.RUNTIME_ERROR, TRACEBACK)
        .note(exit_code=1),
    )
    retried = (
        waits(builder("lost the race once", 5000), WaitingCode.GPUS, free=0, needed=8)
        .after(1200)
        .run()
        .log(SHORTAGE + "\n")
    )
    retried.after(12).end(Event.RETRY, "FAILED", FailureKind.INSUFFICIENT_RESOURCES, SHORTAGE)
    yield "retried", retried.after(60).run().log(lines).note(driver_node_id="n1")
    placement = builder("waits for placement", 400, workload=Workload.GRPO).after(3).run()
    yield "placement", placement.note(placement_pending_since=to_text(placement.at + timedelta(seconds=5)))
    yield "canceling", builder("being stopped", 300).after(3).run().after(200).do(Event.CANCEL)
    yield "canceled", builder("cancelled early", 7200).after(30).do(Event.CANCEL)
    yield (
        "waiting",
        waits(
            builder("two whole nodes", 240, nodes=2), WaitingCode.WHOLE_NODES, free=12, needed=16, nodes=2, per_node=8
        ),
    )
    yield "behind", waits(builder("", 120), WaitingCode.BEHIND, ahead=1)
    yield (
        "too big",
        waits(builder("more than there is", 60, nodes=8), WaitingCode.TOO_BIG, of="GPU", total=16, needed=64),
    )
    yield "queued", builder("只看中文名稱 and a very long name that does not fit into one line of a narrow table", 2)


def cluster(user: str, tasks: dict[str, str], **changed: Any) -> ClusterView:
    """Two nodes of eight GPUs and a head: some of them this user's, some another's, some of nobody known, some free."""
    nodes = (
        Node("head00aa", "10.0.0.1", 0, 0, 16, 12, may_train=False),
        Node("n1aabbccdd", "10.0.0.11", 8, 0, 96, 40),
        Node("n2aabbccdd", "10.0.0.12", 8, 3, 96, 71.5),
    )
    mine = Holder(tasks["retried"], user, "ppo", "RUNNING", 8, {"n1aabbccdd": 8.0})
    reserved = Holder(tasks["placement"], user, "grpo", "SUBMITTED", 8, {})
    other = Holder("mvp2-somebody-sft-20261120-101010-00aa", "somebody", "sft", "RUNNING", 4, {"n2aabbccdd": 4.0})
    view = ClusterView(to_text(now()), nodes, (mine, reserved, other), queued=4)
    return ClusterView(**{**vars(view), **changed})


def show_cluster(deployment: Deployment, view: ClusterView | None) -> None:
    """As the scheduler leaves it; None: none has looked."""
    look = Redis.from_url(deployment.env["MODELMILL_REDIS_URL"])
    if view is None:
        look.delete("training:cluster")
    else:
        ClusterPicture(look, ttl_s=3600).put(view)
    look.close()
