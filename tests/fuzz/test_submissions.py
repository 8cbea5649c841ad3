"""Thousands of hostile submissions against the running service: each gets a clear answer, and nothing falls over.

MODELMILL_FUZZ_COUNT raises the number, MODELMILL_FUZZ_SEED repeats a run. What gets a bad answer is kept in a folder
that the failure names.
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
from typing import Any

import httpx
import pytest

from tests.fuzz.cases import case
from tests.fuzz.corpus import Case
from tests.harness.api import Api, has_ended, pngs, small_model, until
from tests.harness.deployment import Deployment

COUNT = int(os.environ.get("MODELMILL_FUZZ_COUNT", "2000"))
SEED = int(os.environ.get("MODELMILL_FUZZ_SEED", "1"))
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
    """What became of the cases. bad: number of a case → what was wrong with its answer."""

    url: str
    bad: dict[int, str] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)

    def submit(self, numbers: list[int]) -> None:
        with Api(self.url) as api:
            for number in numbers:
                self._submit(api, number, case(SEED, number))

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

    def wait(self) -> None:
        """Until every job that was taken has ended."""
        with Api(self.url) as api:
            for job_id, number in self.jobs.items():
                ended = api.wait(job_id, has_ended)
                error = ended["error"]
                self.answers[error["code"] if error else "COMPLETED"] += 1
                if error and (problem := unclear_reason(error)):
                    self.bad[number] = f"stage {error['step']}: {problem}"


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
    from app.conversion.toolchains import forkserver

    samples: list[int] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.2):
            samples.append(sum(forkserver._tree_memory(pid) for pid in pids))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield samples
    finally:
        is_over.set()
        thread.join()


@pytest.mark.timeout(60 + COUNT)
def test_every_hostile_submission_gets_a_clear_answer_and_the_service_lives_on(
    service: Deployment, tmp_path: Path
) -> None:
    print(f"seed {SEED}, {COUNT} cases")
    began = time.monotonic()
    pids = [process.pid for process in service.processes]
    done = Round(service.url)
    with watched_memory(pids) as memory:
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(done.submit, [list(range(start, COUNT, CLIENTS)) for start in range(CLIENTS)]))
        done.wait()
    print(f"{time.monotonic() - began:.0f} s, at most {max(memory) >> 20} MiB, {dict(done.answers.most_common())}")
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
