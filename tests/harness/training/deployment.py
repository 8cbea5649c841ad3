"""The whole product in front of a Ray cluster of our own, as its users see it. For tests and measurements."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from app.standalone.processes import TRAINING
from tests.harness.deployment import DRAMATIQ, Deployment, Process
from tests.harness.ray_cluster import STAND_INS, RayCluster
from tests.harness.until import PATIENCE_S, until

TASKS = "/api/v2/tasks"
FIELDS = ("accelerator_type", "backfill", "preemptible", "priority", "resources", "restart_on_infra", "save_freq")
ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELED"})
VERL = {
    "model_id": "Qwen/Qwen2.5-0.5B-Instruct",
    "train_file": "/private/common/datasets/train.parquet",
    "val_file": "/private/common/datasets/train.parquet",
    "code_path": "/private/common/code/verl",
}
Task = dict[str, Any]


class TrainingDeployment:
    """settings: of the product, besides where its cluster is. verl is the stand-in in tests/standins/verl."""

    def __init__(self, folder: Path, cluster: RayCluster, **settings: str) -> None:
        self.deployment = Deployment(folder, **cluster.settings, ray_python=sys.executable, **settings)
        self.http = httpx.Client(base_url=self.deployment.url, timeout=PATIENCE_S)
        self.patience_s = PATIENCE_S
        self.scheduler: Process | None = None
        self.common = folder / "data" / "homes" / "common"
        shutil.copytree(STAND_INS, self.common / "code" / "verl")
        (self.common / "datasets").mkdir()
        (self.common / "datasets" / "train.parquet").write_bytes(b"PAR1")

    def start(self) -> None:
        self.deployment.web()
        self.deployment.start([str(Path(DRAMATIQ).with_name("periodiq")), "actors"])
        self.schedule()

    def schedule(self) -> None:
        self.scheduler = self.deployment.start([DRAMATIQ, *TRAINING.arguments])

    def kill_scheduler(self) -> None:
        assert self.scheduler is not None
        os.killpg(self.scheduler.pid, signal.SIGKILL)
        self.scheduler.wait()

    def close(self) -> None:
        self.http.close()
        self.deployment.__exit__(None, None, None)

    def add_program(self, name: str, source: str) -> str:
        """For the workload script. Returns its code_path."""
        folder = self.common / "code" / name
        folder.mkdir()
        (folder / "train.py").write_text(source)
        return f"/private/common/code/{name}"

    def send(self, spec: Task) -> str:
        """Returns the id of the task."""
        answer = self.http.post(TASKS, json=spec)
        assert answer.status_code == 201, answer.text
        task_id: str = answer.json()["task_id"]
        return task_id

    def task(self, task_id: str) -> Task:
        answer = self.http.get(f"{TASKS}/{task_id}")
        assert answer.status_code == 200, answer.text
        task: Task = answer.json()
        return task

    def when(self, task_id: str, is_so: Callable[[Task], Any]) -> Task:
        task: Task = until(lambda: self.task(task_id), is_so, timeout_s=self.patience_s)
        return task

    def reaches(self, task_id: str, *states: str) -> Task:
        return self.when(task_id, lambda task: task["state"] in states)

    def cancel(self, *task_ids: str) -> None:
        """And wait for their end; some may have ended."""
        for task_id in task_ids:
            assert self.http.post(f"{TASKS}/{task_id}/cancel").status_code in (202, 409)
        for task_id in task_ids:
            self.reaches(task_id, *ENDED)


class Trainer(TrainingDeployment):
    """It looks at the cluster each second, and converts what was trained."""

    def __init__(self, folder: Path, cluster: RayCluster, **settings: str) -> None:
        super().__init__(folder, cluster, training_tick_s="1", training_retry_interval_s="2", **settings)

    def start_converting(self) -> None:
        self.deployment.workers("actors", onnx=1, bie=1, nef=1, done=1)

    def submit(self, gpus: int = 1, nodes: int = 1, *, workload: str = "ppo", **standin: Any) -> str:
        """standin: what the stand-in for verl is to do, which it reads as its data; other fields by their names."""
        fields = {name: standin.pop(name) for name in list(standin) if name in FIELDS}
        data = self.common / "datasets" / f"{uuid4().hex}.standin"
        data.write_text("".join(f"{name}={value}\n" for name, value in standin.items()))
        spec = {**VERL, "workload": workload, "nnodes": nodes, "n_gpus_per_node": gpus}
        return self.send({**spec, "train_file": f"/private/common/datasets/{data.name}", **fields})

    def run(self, code_path: str, **fields: Any) -> str:
        """Submit a program of add_program()."""
        return self.send({"workload": "script", "code_path": code_path, **fields})

    def logs(self, task_id: str, tail: int = 200) -> list[str]:
        answer = self.http.get(f"{TASKS}/{task_id}/logs", params={"tail": tail})
        assert answer.status_code == 200, answer.text
        return answer.text.splitlines()

    def unended(self) -> list[str]:
        listed = self.http.get(TASKS, params={"limit": 200}).json()["tasks"]
        return [task["task_id"] for task in listed if task["state"] not in ENDED]
