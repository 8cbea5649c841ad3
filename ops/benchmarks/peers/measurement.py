"""One round of one system: started, asked, looked at, ended."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from ops.benchmarks.peers.environments import programs_of
from ops.benchmarks.peers.systems import APPS, OWN, System
from tests.harness import processes
from tests.harness.deployment import Deployment
from tests.harness.paths import REPOSITORY

PAUSE_S, WARM_UP, START_S, ANSWER_S = 0.1, 10, 60, 120
SETTLE_S = 1.0


@dataclass(frozen=True)
class Round:
    """memory_bytes and processes: of the workers and, where there is one, the system's server, without Redis and the
    client. cpu_share: of one core while idle, with Redis. cpu_ms: for one job, in all these processes and Redis, when
    jobs come one by one, and when many are queued: unlike the other figures it hardly depends on what else runs."""

    latencies_ms: list[float]
    jobs_per_s: float
    memory_bytes: int
    cpu_share: float
    cpu_ms_alone: float
    cpu_ms_queued: float
    processes: int


def measure(system: System, *, jobs: int, idle_s: float) -> Round:
    """Measures a system.

    Args:
        system: what is measured.
        jobs: how many jobs run one by one.
        idle_s: seconds without a job, over which its use of the CPU at rest is measured.

    Raises:
        RuntimeError: The system does not work; it says why.
    """
    programs = programs_of(system.environment)
    with tempfile.TemporaryDirectory() as folder, Deployment(Path(folder)) as deployment:
        deployment.env |= _environment(system, deployment)
        try:
            system.start(deployment, programs)
            with Driver(system, programs, deployment) as driver:
                return _ask(driver, system, deployment, jobs=jobs, idle_s=idle_s)
        except (RuntimeError, SystemExit) as error:
            if isinstance(error, SystemExit) and isinstance(error.code, int):
                raise  # the order to end, not its word that something did not come up
            raise RuntimeError(f"{error}{_last_words(deployment)}") from None


def _ask(driver: Driver, system: System, deployment: Deployment, *, jobs: int, idle_s: float) -> Round:
    driver.ask({"one_by_one": 1, "pause_s": 0}, timeout_s=START_S)  # until all its processes are up
    driver.ask({"one_by_one": min(WARM_UP, jobs), "pause_s": 0})
    pids = processes.with_descendants(process.pid for process in deployment.processes)
    watched = pids | {deployment.valkey.process.pid}
    processes.until_quiet(watched)
    latencies, alone_s = processes.with_cpu_s(watched, lambda: driver.ask({"one_by_one": jobs, "pause_s": PAUSE_S}))
    time.sleep(SETTLE_S)
    started = time.perf_counter()
    _, idle_cpu_s = processes.with_cpu_s(watched, lambda: time.sleep(idle_s))
    cpu_share = idle_cpu_s / (time.perf_counter() - started)
    memory = processes.memory_bytes(pids)
    seconds, queued_s = processes.with_cpu_s(watched, lambda: driver.ask({"at_once": system.at_once}))
    return Round(
        latencies,
        system.at_once / seconds,
        memory,
        cpu_share,
        cpu_ms_alone=alone_s * 1000 / jobs,
        cpu_ms_queued=queued_s * 1000 / system.at_once,
        processes=len(pids),
    )


class Driver:
    """The client process, apps/driver.py in the system's environment."""

    def __init__(self, system: System, programs: Path, deployment: Deployment) -> None:
        self.log = (deployment.folder / "driver.log").open("wb")
        self.process = subprocess.Popen(
            [str(programs / "python"), str(APPS / "driver.py"), system.app],
            env=deployment.env,
            cwd=deployment.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()
        self.log.close()

    def ask(self, order: dict[str, float], timeout_s: float = ANSWER_S) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            print(json.dumps(order), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            raise RuntimeError("its client ended") from None
        if not select.select([self.process.stdout], [], [], timeout_s)[0]:
            raise RuntimeError(f"no answer to {order} within {timeout_s:g} s")
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"its client ended at {order}")
        return json.loads(answer)


def _environment(system: System, deployment: Deployment) -> dict[str, str]:
    """A peer must not find the product on its path, nor the product's settings."""
    database = 5 if system.app == "raw_app" else 0  # raw_hops.py has its own
    path = [APPS, REPOSITORY] if system.environment == OWN else [APPS]
    return {
        "BENCH_REDIS_URL": deployment.valkey.url(database),
        "PYTHONPATH": os.pathsep.join(str(folder) for folder in path),
    }


def _last_words(deployment: Deployment) -> str:
    """The last lines of what its processes wrote."""
    words = [
        path.read_text(errors="replace").strip().splitlines()[-2:] for path in sorted(deployment.folder.glob("*.log"))
    ]
    last_lines = dict.fromkeys(line.strip()[:200] for lines in words for line in lines)
    return "".join(f"\n    {line}" for line in last_lines)
