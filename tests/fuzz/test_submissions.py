"""Hostile submissions against the running service: each gets a clear answer, and nothing falls over.

As many as fifteen seconds have room for, but at least one of each kind, which come first; two
thousand in the exhaustive run. MODELMILL_FUZZ_COUNT is the number for both, MODELMILL_FUZZ_SEED repeats a run. What
gets a bad answer is kept in a folder that the failure names.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import Any

import httpx
import pytest

from tests.fuzz.cases import EACH_KIND, case
from tests.fuzz.corpus import Case
from tests.harness.api import Api, has_ended, pngs, small_model
from tests.harness.deployment import Deployment
from tests.harness.until import until

GIVEN = int(os.environ.get("MODELMILL_FUZZ_COUNT", "0"))
FLOOR, MANY = GIVEN or len(EACH_KIND), GIVEN or 2000
BUDGET_S = 5.0
"""In which more than one of each kind is submitted where the machine is fast."""
SEED = int(os.environ.get("MODELMILL_FUZZ_SEED") or SystemRandom().randrange(1 << 32))
CLIENTS = 4
MEMORY_MAX = 3 << 30
"""Bytes that web, workers and everything they start may take together. They take one GiB of it when at rest."""
PYTHON_NAME = re.compile(r"\b[A-Z][A-Za-z]+(Error|Exception|Interrupt|Exit)\b *([:(]|$)|Traceback|<class '")
FOLDERS = re.compile(r"/(tmp|home|root|work|onnxruntime_src)/")
"""What a reason has no business to name."""
CLEAR_REFUSALS = range(400, 500)
BUSY = 429
"""So many jobs are under way that no more are taken: then the next ones wait."""

pytestmark = pytest.mark.slow


@dataclass
class Round:
    """What became of the cases. at_least, until: they go on until both are reached. piles_up: whether jobs are not
    waited for before the next case. bad: number of a case → what was wrong with its answer."""

    url: str
    at_least: int
    until: float
    piles_up: bool = False
    bad: dict[int, str] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    taken: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def submit(self) -> None:
        """One case after another."""
        with Api(self.url) as api:
            while (number := self._next()) is not None:
                self._submit(api, number, case(SEED, number))

    def _next(self) -> int | None:
        with self._lock:
            if self.taken >= self.at_least and time.monotonic() >= self.until:
                return None
            self.taken += 1
            return self.taken - 1

    def _submit(self, api: Api, number: int, one: Case) -> None:
        files = [("model", ("model.onnx", one.model)), *(("images", file) for file in one.images)]
        answer = api.http.post("/uploads", files=files)
        if answer.status_code == 201:
            stored = answer.json()
            body = {"model_key": stored["model_key"], "quant_key": stored["quant_key"], "options": one.options}
            answer = until(lambda: api.http.post("/jobs", json=body), lambda given: given.status_code != BUSY)
        problem = unclear(answer)
        self.answers[
            answer.json()["error"]["code"] if answer.is_error and not problem else str(answer.status_code)
        ] += 1
        if problem:
            self.bad[number] = problem
        elif answer.status_code == 201:
            self.jobs[answer.json()["job_id"]] = number
            if not self.piles_up:
                _ended(api, answer.json()["job_id"])

    def wait(self) -> None:
        """Until every job that was taken has ended."""
        with Api(self.url) as api:
            for job_id, number in self.jobs.items():
                error = _ended(api, job_id)["error"]
                self.answers[error["code"] if error else "COMPLETED"] += 1
                if error and (problem := unclear_reason(error)):
                    self.bad[number] = f"stage {error['step']}: {problem}"


def _ended(api: Api, job_id: str) -> dict[str, Any]:
    """The record of the job at its end, for which it does not ask too often."""
    record: dict[str, Any] = until(lambda: time.sleep(0.15) or api.job(job_id), has_ended)
    return record


def unclear(answer: httpx.Response) -> str:
    """What is wrong with an answer to a submission; empty when it is a job or says clearly why there is none."""
    if answer.status_code == 201:
        return ""
    if answer.status_code not in CLEAR_REFUSALS:
        return f"status {answer.status_code}: {answer.text[:600]}"
    error = answer.json()["error"]
    return unclear_reason({"reason": error["message"], "hint": error["hint"], "code": error["code"]})


def unclear_reason(error: dict[str, Any]) -> str:
    if not error["reason"] or PYTHON_NAME.search(error["reason"]) or FOLDERS.search(error["reason"]):
        return f"{error['code']}: {error['reason']!r} is no reason for a user"
    return ""


@contextmanager
def watched_memory(pids: list[int]) -> Iterator[list[int]]:
    """Samples of what the processes and all their descendants hold, private bytes."""
    from app.kit.sandbox import process_tree

    samples: list[int] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.2):
            samples.append(sum(process_tree.measure_memory(pid) for pid in pids))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


@pytest.mark.timeout(600 + MANY)
@pytest.mark.parametrize("is_short", [True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["short", "long"])
def test_every_hostile_submission_gets_a_clear_answer_and_the_service_lives_on(
    service: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_short: bool
) -> None:
    began = time.monotonic()
    pids = [process.pid for process in service.processes]
    done = Round(service.url, FLOOR, began + BUDGET_S) if is_short else Round(service.url, MANY, began, piles_up=True)
    with watched_memory(pids) as memory:
        with ThreadPoolExecutor(CLIENTS) as pool:
            for client in [pool.submit(done.submit) for _ in range(CLIENTS)]:
                client.result()
        done.wait()
    with capsys.disabled():
        print(f"\nMODELMILL_FUZZ_SEED={SEED}: {done.taken} submissions in {time.monotonic() - began:.0f} s")
    print(f"at most {max(memory) >> 20} MiB, {dict(done.answers.most_common())}")
    saved = [_saved(tmp_path / "findings", number, problem) for number, problem in sorted(done.bad.items())]
    assert not saved, f"seed {SEED}: {len(saved)} unclear answers\n" + "\n".join(saved[:40])
    assert max(memory) < MEMORY_MAX
    assert [process.poll() for process in service.processes] == [None] * len(service.processes)
    with Api(service.url) as api:
        assert api.convert(small_model(), pngs(3))["status"] == "COMPLETED"


def _saved(folder: Path, number: int, problem: str) -> str:
    made = case(SEED, number)
    made.save(folder / str(number))
    return f"{folder / str(number)} ({made.kind}) {problem}"
