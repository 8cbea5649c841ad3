"""What one job costs while few or many are queued, and how the web answers meanwhile: does anything grow with them?

For each depth: so many jobs are queued while the workers stand still (SIGSTOP); then the workers go on, and what they,
the scheduler and Redis have used until the queue is empty is divided by the jobs. Few jobs are queued several times
over, until there were enough for the clocks. Time per job includes filling the pipeline, which weighs on short queues;
CPU per job does not, so it is CPU that shows what grows. The web is asked while the workers stand still once more.
"""

from __future__ import annotations

import math
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import redis

from app.bootstrap.container import Container, assemble
from app.kit.clock import from_text
from ops.benchmarks.load import submit
from tests.harness import processes
from tests.harness.deployment import Deployment
from tests.harness.paths import REPOSITORY

ENOUGH_JOBS, ASKED_TIMES, SUBMITTED_TIMES = 300, 10, 5
ASK_EVERY_S = 0.02  # often enough to stop soon, rarely enough not to take CPU from the measurement
OWNER = "local"
SAMPLE = REPOSITORY / "ops" / "samples" / "digits"
LISTS = ("/jobs", "/ui/jobs", "/ui/jobs?q=no-such-name", "/system", "/ui/system")


@dataclass(frozen=True)
class Cost:
    """The cost of one job. `commands`: run by Redis, including those inside scripts."""

    submit_ms: float
    wall_ms: float
    workers_cpu_ms: float
    redis_cpu_ms: float
    commands: float
    queued_bytes: float


TITLES = {
    "submit_ms": "ms to create and queue it",
    "wall_ms": "ms until it is done, all workers at it",
    "workers_cpu_ms": "CPU ms of workers and scheduler",
    "redis_cpu_ms": "CPU ms of Redis",
    "commands": "commands inside Redis",
    "queued_bytes": "bytes of Redis while queued",
}


def measure(depths: Sequence[int]) -> None:
    most = str(10 * max(depths))
    room = {"max_active_jobs": most, "max_active_jobs_per_user": most}
    with tempfile.TemporaryDirectory() as folder, Deployment(Path(folder), **room) as deployment:
        deployment.workers("ops.benchmarks.noop_actors", onnx=1, bie=1, nef=1, done=1)
        workers = list(deployment.processes)
        deployment.web()
        container = assemble(deployment.settings())
        bench = Backlog(container, deployment.valkey.client, [process.pid for process in workers])
        bench.drain([submit(container, owner=OWNER) for _ in range(ENOUGH_JOBS)])  # warms all up
        costs, answers = [], []
        with httpx.Client(base_url=deployment.url, timeout=120) as client:
            keys = _upload(client)
            for depth in depths:
                costs.append(bench.cost(depth))
                answers.append(bench.answers(depth, client, keys))
    _print_costs(depths, costs)
    _print_answers(depths, answers)


class Backlog:
    """Measures the cost of a backlog. `pids`: the workers' masters; each leads a process group."""

    def __init__(self, container: Container, server: redis.Redis, pids: list[int]) -> None:
        self.container = container
        self.server: Any = server
        self.pids = pids

    def cost(self, depth: int) -> Cost:
        costs = [self._once(depth) for _ in range(math.ceil(ENOUGH_JOBS / depth))]
        return Cost(*(statistics.mean(getattr(cost, field.name) for cost in costs) for field in fields(Cost)))

    def answers(self, depth: int, client: httpx.Client, keys: dict[str, str]) -> dict[str, float]:
        """Returns the median milliseconds of web requests while this many jobs are queued."""
        with self._standing_still():
            job_ids = [submit(self.container, owner=OWNER) for _ in range(depth)]
            last = job_ids[-1]
            paths = [*LISTS, f"/jobs/{last}", f"/ui/jobs/{last}"]
            getters = {path: partial(_get, client, path) for path in paths}
            times = {path.replace(last, "<last>"): _median_ms(call, ASKED_TIMES) for path, call in getters.items()}
            times["POST /jobs"] = _median_ms(lambda: job_ids.append(_post(client, keys)), SUBMITTED_TIMES)
            times["the sweep of every minute"] = _median_ms(self.container.conversion.dispatch.sweep, 1)
        self.drain(job_ids)
        return times

    def drain(self, job_ids: list[str]) -> None:
        """Waits until no job is active, and deletes all of them: each depth starts empty."""
        self._until_empty()
        for job_id in job_ids:
            self.container.store.delete(job_id)

    def _once(self, depth: int) -> Cost:
        with self._standing_still():
            memory = self._memory()
            started = time.perf_counter()
            job_ids = [submit(self.container, owner=OWNER) for _ in range(depth)]
            submitted = time.perf_counter() - started
            queued_bytes = self._memory() - memory
            before = self._used()
            started = time.time()
        self._until_empty()
        wall = max(from_text(text).timestamp() for text in self._ends(job_ids)) - started
        workers, server, commands = (after - was for after, was in zip(self._used(), before, strict=True))
        self.drain(job_ids)
        submit_ms, wall_ms, workers_ms, server_ms = (s * 1000 / depth for s in (submitted, wall, workers, server))
        return Cost(submit_ms, wall_ms, workers_ms, server_ms, commands / depth, queued_bytes / depth)

    def _until_empty(self) -> None:
        while self.container.redis.zcard(self.container.store.records.active_index):
            time.sleep(ASK_EVERY_S)

    def _ends(self, job_ids: list[str]) -> Iterator[str]:
        """Yields when the last jobs ended; the queues keep the order."""
        for record in self.container.store.several(job_ids[-ENOUGH_JOBS:]):
            assert record.finished_at is not None
            yield record.finished_at

    def _used(self) -> tuple[float, float, float]:
        """Returns the CPU seconds of the workers and of Redis, and the number of its commands."""
        usage, stats = self.server.info("cpu"), self.server.info("commandstats")
        calls = sum(
            command["calls"] for name, command in stats.items() if name != "cmdstat_zcard"
        )  # that is our asking
        workers = processes.cpu_s(processes.with_descendants(self.pids))
        return workers, usage["used_cpu_user"] + usage["used_cpu_sys"], calls

    def _memory(self) -> int:
        return int(self.server.info("memory")["used_memory"])

    @contextmanager
    def _standing_still(self) -> Iterator[None]:
        try:
            for pid in self.pids:
                os.killpg(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in self.pids:
                os.killpg(pid, signal.SIGCONT)


def _upload(client: httpx.Client) -> dict[str, str]:
    with (SAMPLE / "digits.onnx").open("rb") as model, (SAMPLE / "reference.zip").open("rb") as images:
        files = {"model": ("digits.onnx", model), "images": ("reference.zip", images)}
        answer = client.post("/uploads", files=files).raise_for_status().json()
    return {"model_key": answer["model_key"], "quant_key": answer["quant_key"]}


def _get(client: httpx.Client, path: str) -> None:
    client.get(path).raise_for_status()


def _post(client: httpx.Client, keys: dict[str, str]) -> str:
    body = {**keys, "options": {"preprocess": {"scale": 1 / 255}}}
    job_id: str = client.post("/jobs", json=body).raise_for_status().json()["job_id"]
    return job_id


def _median_ms(call: Callable[[], Any], times: int) -> float:
    times_ms = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        times_ms.append((time.perf_counter() - started) * 1000)
    return statistics.median(times_ms)


def slope(depths: Sequence[int], values: Sequence[float]) -> float:
    """How much the value grows for each tenfold depth, by least squares; 0 is flat."""
    if len(set(depths)) < 2:
        return 0.0
    return statistics.linear_regression([math.log10(depth) for depth in depths], values).slope


def _print_costs(depths: Sequence[int], costs: Sequence[Cost]) -> None:
    print("\nOne job of three no-op stages, one worker each, with so many queued")
    _print_head(depths)
    for name, title in TITLES.items():
        _print_row(title, depths, [getattr(cost, name) for cost in costs])


def _print_answers(depths: Sequence[int], answers: Sequence[dict[str, float]]) -> None:
    print("\nThe web with so many queued, median ms")
    _print_head(depths)
    for path in answers[0]:
        _print_row(path, depths, [rows[path] for rows in answers])


def _print_head(depths: Sequence[int]) -> None:
    print(f"{'':40}" + "".join(f" {depth:>9}" for depth in depths) + f" {'slope':>9} {'last/first':>10}")


def _print_row(title: str, depths: Sequence[int], values: Sequence[float]) -> None:
    ratio = values[-1] / values[0] if values[0] else math.nan
    cells = "".join(f" {value:9.2f}" for value in values)
    print(f"{title:40}{cells} {slope(depths, values):9.3f} {ratio:10.2f}")
