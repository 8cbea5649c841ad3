"""Training: what the queue costs before Ray, on a cluster of eight pretended GPUs, beside the same job straight to Ray.

Needs the extra train. The scheduler ticks as it does by default. Times of Ray are its own: when it says that a job
began or ended.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

from app.kit.clock import from_text
from app.training.gateway import RayJob, RayStatus, Submission
from app.training.gateway.ray_gateway import RayGateway
from ops.benchmarks import training_curves, training_decisions, training_orders
from tests.harness.deployment import percentile
from tests.harness.ray_cluster import RayCluster, running_cluster
from tests.harness.training.deployment import ENDED, TASKS, Task, TrainingDeployment

GPUS = 8
TOGETHER = 100
ROUNDS = 5
POLL_S = 0.02
PROGRAM = "import sys, time\ntime.sleep(float(sys.argv[1]))\n"
Row = tuple[str, str, str]


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="ops/bench training")
    parser.add_argument("--only", metavar="PART[,PART]", help=f"of {', '.join((*ALONE, *ON_RAY))}")
    parser.add_argument("--trace", type=Path, help="of Philly, for orders; see ops/benchmarks/training_orders.py")
    chosen = parser.parse_args(list(arguments))
    only, alone = chosen.only, ALONE | {"orders": partial(training_orders.measure, chosen.trace)}
    parts = only.split(",") if only else [*ALONE, *ON_RAY]
    if unknown := sorted(set(parts) - {*ALONE, *ON_RAY}):
        parser.error(f"there is no part {unknown[0]}")
    rows = [row for name, measure in alone.items() if name in parts for row in measure()]
    if on_ray := [measure for name, measure in ON_RAY.items() if name in parts]:
        rows += _on_ray(on_ray)
    print(f"\n{'':84} {'measured':>34} {'aim':>10}   load {os.getloadavg()[0]:.1f}")
    for what, measured, aim in rows:
        print(f"{what:84} {measured:>34} {aim:>10}")


def _on_ray(measurements: Sequence[Callable[[TrainingDeployment, str, RayGateway], list[Row]]]) -> list[Row]:
    with (
        tempfile.TemporaryDirectory() as name,
        running_cluster(((GPUS, 26),)) as cluster,
        _training(Path(name), cluster) as (deployment, code_path),
        _gateway(cluster) as gateway,
    ):
        return [row for measure in measurements for row in measure(deployment, code_path, gateway)]


def _layer(deployment: TrainingDeployment, code_path: str, gateway: RayGateway) -> list[Row]:
    """One job on an idle cluster, in turn straight to Ray and through the queue."""
    program = deployment.common / "code" / "sleeper" / "train.py"
    straight: list[tuple[float, float]] = []
    queued: list[tuple[float, float]] = []
    for number in range(ROUNDS):
        began = time.time()
        gateway.submit(
            Submission(
                f"straight-{number}--a01",
                f"{sys.executable} {program} 0",
                gpus=1,
                cpus=1,
                resources={"worker_node": 1},
            )
        )
        job = _ended(gateway, f"straight-{number}--a01")
        straight.append(((job.started_ms or 0) / 1000 - began, time.time() - began))
        began = time.time()
        task = _reaches(deployment, deployment.send(_spec(code_path, 0)), *ENDED)
        assert task["state"] == "SUCCEEDED", task
        queued.append((from_text(task["attempts"][0]["start_time"]).timestamp() - began, time.time() - began))
    rows = []
    for place, what in enumerate(("until Ray has begun with it", "until its end is known")):
        ray_s, ours_s = (statistics.median(times[place] for times in side) for side in (straight, queued))
        rows.append((f"one job: straight to Ray, {what}", f"{ray_s * 1000:.0f} ms", ""))
        aim = "<= 1.2×" if place else ""
        rows.append((f"one job: through the queue, {what}", f"{ours_s * 1000:.0f} ms, {ours_s / ray_s:.2f}×", aim))
    return rows


def _submitting(deployment: TrainingDeployment, code_path: str, _ray: RayGateway) -> list[Row]:
    """One client, one task after the other, while the cluster is full."""
    holder = deployment.send(_spec(code_path, 600, gpus=GPUS))
    _reaches(deployment, holder, "RUNNING")
    took_s, sent = [], [holder]
    for _ in range(TOGETHER):
        began = time.perf_counter()
        sent.append(deployment.send(_spec(code_path, 0)))
        took_s.append(time.perf_counter() - began)
    deployment.cancel(*reversed(sent))
    return [
        (f"submission of {TOGETHER} tasks, one by one, p95", f"{percentile(took_s, 0.95) * 1000:.0f} ms", "< 50 ms")
    ]


def _cancelling(deployment: TrainingDeployment, code_path: str, _ray: RayGateway) -> list[Row]:
    waiting_s, running_s = [], []
    for _ in range(ROUNDS):
        holder = deployment.send(_spec(code_path, 600, gpus=GPUS))
        _reaches(deployment, holder, "RUNNING")
        queued = deployment.send(_spec(code_path, 0))
        began = time.perf_counter()
        assert deployment.http.post(f"{TASKS}/{queued}/cancel").json()["state"] == "CANCELED"
        waiting_s.append(time.perf_counter() - began)
        began = time.perf_counter()
        deployment.http.post(f"{TASKS}/{holder}/cancel")
        _reaches(deployment, holder, "CANCELED")
        running_s.append(time.perf_counter() - began)
    return [
        ("cancel of one that waits, slowest", f"{max(waiting_s) * 1000:.0f} ms", "< 100 ms"),
        ("cancel of one that runs until it has stopped, slowest", f"{max(running_s):.1f} s", "< 5 s"),
    ]


def _freed(deployment: TrainingDeployment, code_path: str, _ray: RayGateway) -> list[Row]:
    """From the end of what held the GPUs to the start of what waited for them, by Ray's clock for both."""
    by_itself: list[float] = []
    woken: list[float] = []
    for _ in range(ROUNDS):
        for gaps, is_woken in ((by_itself, False), (woken, True)):
            holder = deployment.send(_spec(code_path, 600 if is_woken else 6, gpus=GPUS))
            _reaches(deployment, holder, "RUNNING")
            following = deployment.send(_spec(code_path, 0, gpus=GPUS))
            _reaches(deployment, following, "PENDING_RESOURCES")
            if is_woken:
                deployment.http.post(f"{TASKS}/{holder}/cancel")
            ends = _reaches(deployment, holder, *ENDED)["attempts"][0]["end_time"]
            starts = _reaches(deployment, following, *ENDED)["attempts"][0]["start_time"]
            gaps.append((from_text(starts) - from_text(ends)).total_seconds())
    return [
        ("GPUs freed by an end → the next begins, median (tick 5 s)", f"{statistics.median(by_itself):.1f} s", "< 7 s"),
        ("GPUs freed by a cancel → the next begins, median", f"{statistics.median(woken):.1f} s", "< 2 s"),
    ]


def _at_once(deployment: TrainingDeployment, code_path: str, gateway: RayGateway) -> list[Row]:
    """Many are sent at the same time, and the cluster is looked at while they go through it."""
    took_s: list[float] = []

    def send(_: int) -> str:
        began = time.perf_counter()
        task_id = deployment.send(_spec(code_path, 0.5))
        took_s.append(time.perf_counter() - began)
        return task_id

    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(send, range(TOGETHER)))
    most = 0
    while any(task["state"] not in ENDED for task in _listed(deployment)):
        active = [task for task in _listed(deployment) if task["state"] in ("SUBMITTING", "SUBMITTED", "RUNNING")]
        most = max(most, sum(task["demand"]["gpus"] for task in active))
        assert all(node.free_gpus >= 0 for node in gateway.nodes())
        time.sleep(0.2)
    in_line = [deployment.task(task["task_id"]) for task in reversed(_listed(deployment)) if task["task_id"] in sent]
    assert [task["state"] for task in in_line] == ["SUCCEEDED"] * TOGETHER
    given = [task["attempts"][0]["created_at"] for task in in_line]
    overtaken = sum(later < earlier for earlier, later in pairwise(given))
    return [
        (f"{TOGETHER} tasks from 8 clients: submission, p95", f"{percentile(took_s, 0.95) * 1000:.0f} ms", ""),
        (f"{TOGETHER} tasks: given to Ray before one that was sent earlier", str(overtaken), "0"),
        (f"{TOGETHER} tasks: most GPUs promised at once, of {GPUS}", str(most), f"<= {GPUS}"),
    ]


def _spec(code_path: str, seconds: float, *, gpus: int = 1) -> Task:
    return {
        "workload": "script",
        "code_path": code_path,
        "args": [str(seconds)],
        "n_gpus_per_node": gpus,
        "cpus": 1,
    }


def _listed(deployment: TrainingDeployment) -> list[Task]:
    listed: list[Task] = deployment.http.get(TASKS, params={"limit": 200}).json()["tasks"]
    return listed


def _reaches(deployment: TrainingDeployment, task_id: str, *states: str) -> Task:
    while (task := deployment.task(task_id))["state"] not in states:
        time.sleep(POLL_S)
    return task


def _ended(gateway: RayGateway, submission_id: str) -> RayJob:
    while (job := gateway.job(submission_id)) is None or not job.status.is_terminal:
        time.sleep(POLL_S)
    assert job.status is RayStatus.SUCCEEDED, job
    return job


@contextmanager
def _training(folder: Path, cluster: RayCluster) -> Iterator[tuple[TrainingDeployment, str]]:
    deployment = TrainingDeployment(folder, cluster)
    try:
        deployment.start()
        yield deployment, deployment.add_program("sleeper", PROGRAM)
    finally:
        deployment.close()


@contextmanager
def _gateway(cluster: RayCluster) -> Iterator[RayGateway]:
    made = RayGateway(cluster.options())
    try:
        yield made
    finally:
        made.close()


ALONE: dict[str, Callable[[], list[Row]]] = {
    "decisions": training_decisions.measure,
    "orders": training_orders.measure,
    "metrics": training_curves.measure_metrics,
    "page": training_curves.measure_page,
}
ON_RAY: dict[str, Callable[[TrainingDeployment, str, RayGateway], list[Row]]] = {
    "overhead": _layer,
    "submission": _submitting,
    "cancellation": _cancelling,
    "freed": _freed,
    "at_once": _at_once,
}
