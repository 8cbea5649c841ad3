"""Searches among 100,000 jobs: how long the list, the palette and what their index is asked for take."""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from pathlib import Path

import httpx

from app.bootstrap.container import Container, assemble
from app.conversion.job_index import Sort
from app.conversion.model.job_filter import parse
from app.kit.clock import from_text, now
from tests.harness.conversion_jobs import jobs_of_a_year
from tests.harness.deployment import Deployment, percentile

JOBS = int(os.environ.get("MODELMILL_BENCH_JOBS", "100000"))
ROUNDS = 40
OWNER, SHOWN = "local", 50
FILTERS = (
    "",
    "status:failed",
    "status:completed",
    "verdict:below tag:nightly",
    "status:failed snr:<20 tag:nightly model:yolo created:<7d",
    "snr:<20",
    "snr:10..40",
    "size:>300K latency:<10ms",
    "size:>300K snr:>20",
    "status:completed snr:>20",
    "status:completed verdict:passed target:host",
    "created:<7d",
    "yolo nightly",
    "run",
    "run 99990",
    "o",
    "name:trial target:host",
    "no-such-name",
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Deployment(Path(folder)) as deployment:
        deployment.web()
        container = assemble(deployment.settings())
        began = time.perf_counter()
        for job in jobs_of_a_year(JOBS, OWNER, until=now()):
            container.store.create(job, score=from_text(job.created_at).timestamp() * 1e6)
        container.conversion.index.search(parse("", now=now()), OWNER, limit=1)
        print(f"\n{JOBS:,} jobs, written and indexed in {time.perf_counter() - began:.0f} s")
        _measure_index(container)
        _measure_pages(deployment.url)
        container.close()


def _measure_index(container: Container) -> None:
    index, cpu_p95 = container.conversion.index, list[float]()
    print(f"\n{'filter':<66} {'jobs':>7}   p50 ms   p95 ms   p95 of CPU ms")
    for text in FILTERS:
        for sort in (Sort.CREATED, Sort.SNR):
            search = partial(index.search, parse(text, now=now()), OWNER, sort=sort, limit=SHOWN)
            total, times, cpu = search().total, list[float](), list[float]()
            for _ in range(ROUNDS):
                began, cpu_began = time.perf_counter(), _cpu_s(container)
                search()
                times.append(time.perf_counter() - began)
                cpu.append(_cpu_s(container) - cpu_began)
            cpu_p95.append(percentile(cpu, 0.95))
            label = f"{text or '(all)'} by {sort.value}"
            print(f"{label:<66} {total:>7,} {_ms(times, 0.5)} {_ms(times, 0.95)} {_ms(cpu, 0.95)}")
    print(f"p95 over all of these, of CPU: {_ms(cpu_p95, 0.95)} ms; the slowest: {_ms(cpu_p95, 1)} ms")


def _measure_pages(url: str) -> None:
    with httpx.Client(base_url=url, trust_env=False, timeout=60, headers={"Accept": "text/html"}) as client:
        for path in ("/ui/jobs", "/ui/jobs?q=run+99990", "/ui/jobs?q=yolo+nightly", "/ui/search/results?q=run+99990"):
            client.get(path).raise_for_status()
            times = list[float]()
            for _ in range(ROUNDS):
                began = time.perf_counter()
                client.get(path).raise_for_status()
                times.append(time.perf_counter() - began)
            print(f"{path:<74} {_ms(times, 0.5)} {_ms(times, 0.95)}")


def _cpu_s(container: Container) -> float:
    """That this process and Redis' main thread have had; other programs on the machine add next to nothing to it."""
    used = container.redis.info("cpu")
    return time.process_time() + float(used["used_cpu_user_main_thread"]) + float(used["used_cpu_sys_main_thread"])


def _ms(times: list[float], share: float) -> str:
    return f"{percentile(times, share) * 1000:8.1f}"
