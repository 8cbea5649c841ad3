"""Many small jobs under random faults.

The seed names the jobs and the faults; where each falls is up to the machine. MODELMILL_SOAK_SEED repeats it.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.conversion.model import Stage
from tests.harness.faults.deployment import Job
from tests.harness.faults.invariants import assert_recovered
from tests.harness.faults.stages import NOTES
from tests.harness.faults.supervised_deployment import SCHEDULER, SupervisedDeployment

pytestmark = [pytest.mark.slow]
JOBS = [20, 200]
UNDER_WAY = 16
"""So many jobs are in the line at once, for the faults to find some in every place."""
BIE = 2
LIMIT_S = 6
STEPS = [stage.step for stage in Stage]
WORKERS = ["onnx-0", *(f"bie-{number}" for number in range(BIE)), "nef-0"]
FAULTS = {"kill": 8, "kill master": 3, "kill scheduler": 4, "stall": 3, "cancel": 7}
LOST = {"worker lost", "the worker was shut down", "the sandbox process was killed"}
OF_PLAN = {"crash:SIGSEGV": "crashed: SIGSEGV", "hang": f"timed out after {LIMIT_S} s"}


@dataclass(frozen=True)
class Fault:
    kind: str
    part: str
    pause_s: float
    stall_s: float
    choice: float
    """Which of the jobs under way, as a portion."""


class Soak:
    def __init__(self, deployment: SupervisedDeployment, seed: int, census: Path, jobs: int) -> None:
        self.deployment = deployment
        chance = random.Random(seed)
        self.plans = [_plan(chance) for _ in range(jobs)]
        hung = ["onnx", "bie", "bie"][: 2 + jobs // 100]
        for number, step in zip(chance.sample(range(jobs), len(hung)), hung, strict=True):
            self.plans[number] = {step: "hang"}
        self.faults = _faults(chance)
        self.census = census
        self.planned: dict[str, dict[str, str]] = {}
        self.jobs: list[Job] = []
        self.cancelled: set[str] = set()
        self.killed: Counter[str] = Counter()

    def run(self) -> None:
        plans = iter(self.plans)
        due = time.monotonic()
        fault = next(self.faults)
        while (under_way := self._under_way()) or len(self.jobs) < len(self.plans):
            for plan in [plan for _, plan in zip(range(UNDER_WAY - len(under_way)), plans, strict=False)]:
                job = self.deployment.submit(census=str(self.census), **plan)
                self.jobs.append(job)
                self.planned[job.job_id] = plan
            if time.monotonic() >= due:
                self._do(fault, under_way)
                due, fault = time.monotonic() + fault.pause_s, next(self.faults)
            time.sleep(0.05)

    def _under_way(self) -> list[str]:
        return [record.job_id for record in self.deployment.container.store.active()]

    def _do(self, fault: Fault, under_way: list[str]) -> None:
        if fault.kind == "cancel":
            if under_way:
                self._cancel(under_way[int(fault.choice * len(under_way))])
        elif fault.kind == "stall":
            self.deployment.valkey.process.send_signal(signal.SIGSTOP)
            time.sleep(fault.stall_s)
            self.deployment.valkey.process.send_signal(signal.SIGCONT)
        else:
            self._kill(SCHEDULER if "scheduler" in fault.kind else fault.part, is_master="master" in fault.kind)

    def _cancel(self, job_id: str) -> None:
        answer = httpx.post(f"{self.deployment.url}/jobs/{job_id}/cancel")
        assert answer.status_code in {200, 409}, answer.text
        if answer.status_code == 200:
            self.cancelled.add(job_id)

    def _kill(self, part: str, *, is_master: bool) -> None:
        """Whatever it is doing, starting included; a worker process that is not there yet cannot be killed."""
        self.deployment.has_settled(part)
        leader = self.deployment.supervisor.pids().get(part)
        processes = [self.deployment.child_of(leader)] if leader and is_master else self.deployment.below(part)[1:]
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            for pid in filter(None, processes):
                os.kill(pid, signal.SIGKILL)
                self.killed[part] += 1

    # --- what must hold ---------------------------------------------------------------------------
    def assert_all_is_well(self) -> None:
        shown = assert_recovered(self.deployment, self.jobs)
        for job_id, answer in shown.items():
            assert answer["status"] in self._expected_status(job_id), (job_id, self.planned[job_id], answer)
            if answer["error"]:
                assert answer["error"]["reason"] in self._expected_reasons(job_id, answer["error"]["step"]), answer
        lost = [answer for answer in shown.values() if answer["error"] and answer["error"]["reason"] in LOST]
        kills = sum(self.killed[part] for part in WORKERS)
        assert len(lost) <= kills, f"{kills} kills have cost {len(lost)} jobs"
        counts = [int(line) for line in (self.census / "counts").read_text().split()]
        assert max(counts) <= BIE, f"{max(counts)} stages of BIE ran at once"
        begun = sum(job.starts()["bie"] for job in self.jobs)
        assert begun - kills <= len(counts) <= begun, "each stage was counted, but for those killed before they could"
        assert begun > len(self.plans) / 2

    def _expected_status(self, job_id: str) -> set[str]:
        is_doomed = job_id in self.cancelled or set(self.planned[job_id].values()) & OF_PLAN.keys()
        return {"FAILED"} if is_doomed else {"COMPLETED", "FAILED"}

    def _expected_reasons(self, job_id: str, step: str) -> set[str]:
        if job_id in self.cancelled:
            return {"CANCELLED"}
        own = OF_PLAN.get(self.planned[job_id].get(step, ""))
        return LOST | ({own} if own else set())


def _plan(chance: random.Random) -> dict[str, str]:
    if chance.random() < 0.08:
        return {chance.choice(STEPS): "crash:SIGSEGV"}
    return {step: f"sleep:{chance.uniform(0, 0.15):.3f}" for step in STEPS if chance.random() < 0.5}


def _faults(chance: random.Random) -> Iterator[Fault]:
    """First one of each kind."""
    kinds = chance.sample(list(FAULTS), len(FAULTS))
    while True:
        kind = kinds.pop() if kinds else chance.choices(list(FAULTS), list(FAULTS.values()))[0]
        yield Fault(kind, chance.choice(WORKERS), chance.uniform(0.5, 2), chance.uniform(0.2, 1.5), chance.random())


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[SupervisedDeployment]:
    limits = dict.fromkeys((f"{step}_time_s" for step in STEPS), str(LIMIT_S)) | {"onnx_time_s_per_mib": "0"}
    with SupervisedDeployment(tmp_path, bie=BIE, worker_ttl_s="6", **limits) as made:
        yield made
        made.valkey.process.send_signal(signal.SIGCONT)


@pytest.mark.exhaustive  # each fault by itself is in the files beside this one
@pytest.mark.parametrize("jobs", JOBS)
def test_many_jobs_under_random_faults(
    wide: SupervisedDeployment, capsys: pytest.CaptureFixture[str], jobs: int
) -> None:
    seed = int(os.environ.get("MODELMILL_SOAK_SEED") or random.SystemRandom().randrange(1 << 32))
    with capsys.disabled():
        print(f"\nMODELMILL_SOAK_SEED={seed}")
    census = wide.folder / NOTES / "census"
    census.mkdir()
    soak = Soak(wide, seed, census, jobs)
    begin = time.monotonic()
    try:
        soak.run()
        soak.assert_all_is_well()
    except BaseException as error:
        error.add_note(f"This was MODELMILL_SOAK_SEED={seed}; killed so far: {dict(soak.killed)}")
        raise
    with capsys.disabled():
        print(_summary(soak, time.monotonic() - begin))


def _summary(soak: Soak, took_s: float) -> str:
    records: list[Any] = soak.deployment.container.store.several(job.job_id for job in soak.jobs)
    ends = Counter(record.error.reason if record.error else record.status.value for record in records)
    return f"{took_s:.0f} s; killed {dict(soak.killed)}; {dict(ends)}"
