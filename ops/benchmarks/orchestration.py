"""What the orchestration costs: a job of three no-op stages, against the same hops on raw Redis lists.

One worker per stage and one scheduler on both sides; the two are measured in turn, so a slow moment hits both. The CPU
time of each process per queued job hardly depends on what else the machine does.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import redis

from app.bootstrap.container import Container, assemble
from ops.benchmarks.load import Watcher, submit
from tests.harness.deployment import Deployment, percentile
from tests.harness.processes import cpu_s, with_descendants

ROUNDS, PER_ROUND, IDLE_S, QUEUED = 4, 25, 0.1, 500
ROLES = ("onnx", "bie", "nef", "done")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Deployment(Path(folder)) as deployment:
        deployment.workers("ops.benchmarks.noop_actors", onnx=1, bie=1, nef=1, done=1)
        for role in ROLES:
            deployment.start([sys.executable, "-m", "ops.benchmarks.raw_hops", role, str(deployment.redis_port)])
        deployment.until_quiet()
        container = assemble(deployment.settings())
        raw = redis.Redis(port=deployment.redis_port, db=5)
        watcher = Watcher(container)
        sides = {"modelmill": lambda: watcher.wait(submit(container)), "raw Redis lists": lambda: _raw_job(raw)}
        latency = _latency(sides)
        watcher.check()
        before = _cpu_ms(deployment)
        rates = {"modelmill": _product_rate(container)}
        between = _cpu_ms(deployment)
        rates["raw Redis lists"] = _raw_rate(raw)
        after = _cpu_ms(deployment)
    _print(latency, rates)
    _print_cpu("modelmill", before, between)
    _print_cpu("raw Redis lists", between, after)


def _cpu_ms(deployment: Deployment) -> dict[str, float]:
    """CPU time that each process has used; a worker's with that of its master."""
    started = dict(zip((*ROLES, *(f"raw {role}" for role in ROLES)), deployment.processes, strict=True))
    pids = {"client": {os.getpid()}, "Redis": {deployment.valkey.process.pid}}
    pids |= {role: with_descendants([process.pid]) for role, process in started.items()}
    return {role: cpu_s(role_pids) * 1000 for role, role_pids in pids.items()}


def _latency(sides: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, job in sides.items():
            job()
            for _ in range(PER_ROUND):
                time.sleep(IDLE_S)
                started = time.perf_counter()
                job()
                times[name].append((time.perf_counter() - started) * 1000)
    return times


def _raw_job(raw: redis.Redis) -> None:
    raw.rpush("raw:onnx", str(uuid4()))
    raw.blpop(["raw:finished"], timeout=10)


def _product_rate(container: Container) -> float:
    started = time.perf_counter()
    for _ in range(QUEUED):
        submit(container)
    while container.redis.zcard(container.store.records.active_index):
        time.sleep(0.005)
    return QUEUED / (time.perf_counter() - started)


def _raw_rate(raw: redis.Redis) -> float:
    started = time.perf_counter()
    for _ in range(QUEUED):
        raw.rpush("raw:onnx", str(uuid4()))
    for _ in range(QUEUED):
        raw.blpop(["raw:finished"], timeout=10)
    return QUEUED / (time.perf_counter() - started)


def _print(latency: dict[str, list[float]], rates: dict[str, float]) -> None:
    print(f"\nThree no-op stages; {ROUNDS * PER_ROUND} jobs one by one, then {QUEUED} queued at once")
    print(f"{'':18} {'p50 ms':>8} {'p95 ms':>8} {'jobs/s':>8}")
    for name, values in latency.items():
        print(f"{name:18} {percentile(values, 0.5):8.1f} {percentile(values, 0.95):8.1f} {rates[name]:8.0f}")
    ours, limit = (percentile(latency[name], 0.5) for name in latency)
    ours_rate, limit_rate = rates.values()
    print(f"{'ratio':18} {ours / limit:8.2f} {'':8} {ours_rate / limit_rate:8.2f}")


def _print_cpu(name: str, before: dict[str, float], after: dict[str, float]) -> None:
    used = {role: (after[role] - before[role]) / QUEUED for role in after}
    shown = "  ".join(f"{role} {ms:.2f}" for role, ms in used.items() if ms >= 0.01)
    print(f"CPU ms per queued job, {name}: {sum(used.values()):.2f}  ({shown})")
