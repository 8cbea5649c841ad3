"""`ops/bench training --only metrics,page`: learning curves while they grow, and the page of a long one.

metrics: 50 running tasks get 1,000 points per second, and each of their pages is open: its curves are asked for every
5 s, as the page does. Each answer's age is how long ago the first row was written that it lacks; 0 if it has all.

page: 100,000 points of one task, in Chromium: the first paint by the browser's own paint timing.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from tests.harness.api import Api
from tests.harness.deployment import Deployment, percentile
from tests.harness.processes import cpu_s, with_descendants
from tests.harness.training.tasks import TaskBuilder, begin, database_of

TASKS, POINTS_PER_S, METRICS = 50, 1000, 10
ROWS_BEFORE = 1000
"""Of each task, when the measurement begins."""
SECONDS = 30.0
RENEWED_S = 5.0
LONG_ROWS = 10_000
LOADS = 20
USER = "local"
Row = tuple[str, str, str]
AGE = re.compile(r"The last value is [^,]+, at step (\d+)")


def measure_metrics() -> list[Row]:
    with _web() as (deployment, pid):
        with ExitStack() as stack:
            database = stack.enter_context(database_of(deployment))
            tasks = [begin(deployment, database, USER, f"task {number}", ago_s=3600).run() for number in range(TASKS)]
        writers = [_Writer(task) for task in tasks]
        began_s = time.perf_counter()
        busy_before_s = _busy_s(pid)
        over = threading.Event()
        with ThreadPoolExecutor(TASKS + 1) as pool:
            writing = pool.submit(_write_all, writers, over)
            viewers = [
                pool.submit(_view, deployment.url, writer, number, over) for number, writer in enumerate(writers)
            ]
            time.sleep(SECONDS)
            over.set()
            late = writing.result()
            answers = [answer for viewer in viewers for answer in viewer.result()]
        passed_s = time.perf_counter() - began_s
        share = (_busy_s(pid) - busy_before_s) / passed_s
    ages_s, took_s = [age for age, _ in answers], [took for _, took in answers]
    written = sum(writer.rows - ROWS_BEFORE for writer in writers) * METRICS / passed_s
    label = f"{TASKS} tasks, {written:.0f} points/s, {len(answers) / passed_s:.0f} pages/s"
    return [
        (f"{label}: a page lacks what was written before it by, p95", f"{percentile(ages_s, 0.95) * 1000:.0f} ms", ""),
        (f"{label}: the same, longest", f"{max(ages_s) * 1000:.0f} ms", "< 1000 ms"),
        (f"{label}: answer of a page, p95", f"{percentile(took_s, 0.95) * 1000:.0f} ms", ""),
        (f"{label}: CPU of the web, share of a core", f"{share:.0%}", "< 100 %"),
        (f"{label}: seconds that were written late (busy machine)", f"{late}", ""),
    ]


def measure_page() -> list[Row]:
    from playwright.sync_api import sync_playwright

    from tests.harness.browser.chromium import ARGUMENTS, CHROMIUM

    with _web() as (deployment, pid):
        with database_of(deployment) as database:
            task = begin(deployment, database, USER, "long", ago_s=3600).run()
        _Writer(task, LONG_ROWS)
        url = f"{deployment.url}/ui/tasks/{task.task.task_id}/metrics"
        busy_s, paints_ms, first_bytes_ms = list[float](), list[float](), list[float]()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            for _ in range(LOADS + 1):
                before_s, context = _busy_s(pid), browser.new_context()
                page = context.new_page()
                page.goto(url)
                page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
                paints_ms.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
                first_bytes_ms.append(page.evaluate("performance.getEntriesByType('navigation')[0].responseStart"))
                busy_s.append(_busy_s(pid) - before_s)
                context.close()
            browser.close()
    label = f"page of {LONG_ROWS * METRICS:,} points"
    return [
        (f"{label}: first paint, p95 of {LOADS}", f"{percentile(paints_ms[1:], 0.95):.0f} ms", "< 300 ms"),
        (f"{label}: first byte, p95", f"{percentile(first_bytes_ms[1:], 0.95):.0f} ms", ""),
        (f"{label}: the first time, when the file is read: first paint", f"{paints_ms[0]:.0f} ms", ""),
        (f"{label}: CPU of the web for a load, median", f"{percentile(busy_s[1:], 0.5) * 1000:.0f} ms", ""),
    ]


class _Writer:
    """A program that trains: it appends rows to the metrics of its task."""

    def __init__(self, task: TaskBuilder, rows: int = ROWS_BEFORE) -> None:
        self.task_id = task.task.task_id
        self.rows = 0
        self.written_at: list[float] = []
        """When each row was written, by step."""
        self._file: Path = task.path / "metrics.jsonl"
        self.write(rows)

    def write(self, count: int) -> None:
        steps = range(self.rows, self.rows + count)
        rows = (
            {"step": step, "data": {f"train/loss-{n}": 1 / (1 + step + n) for n in range(METRICS)}} for step in steps
        )
        with self._file.open("a") as file:
            file.write("".join(f"{json.dumps(row)}\n" for row in rows))
        self.written_at += [time.perf_counter()] * count
        self.rows += count


def _write_all(writers: Sequence[_Writer], over: threading.Event) -> int:
    """Each second's rows spread over it. Returns how many seconds took longer than one."""
    rounds_per_s, late, due_s = POINTS_PER_S // (METRICS * len(writers)), 0, time.perf_counter()
    while not over.is_set():
        for writer in writers:
            writer.write(1)
        due_s += 1 / rounds_per_s
        late += time.perf_counter() > due_s + 1
        over.wait(max(0.0, due_s - time.perf_counter()))
    return late


def _view(url: str, writer: _Writer, begins_s: float, over: threading.Event) -> list[tuple[float, float]]:
    """One open page. Returns of each answer its age and how long it took, in seconds."""
    answers: list[tuple[float, float]] = []
    over.wait(begins_s)
    with httpx.Client(base_url=url, timeout=60) as client:
        while not over.is_set():
            began_s = time.perf_counter()
            answer = client.get(f"/ui/tasks/{writer.task_id}/metrics/live")
            ended_s = time.perf_counter()
            assert answer.status_code == 200, answer.text
            shown = max(int(step) for step in AGE.findall(answer.text))
            missing = writer.written_at[shown + 1 : shown + 2]
            answers.append((max(0.0, ended_s - missing[0]) if missing else 0.0, ended_s - began_s))
            over.wait(max(0.0, RENEWED_S - (ended_s - began_s)))
    return answers


def _busy_s(pid: int) -> float:
    return cpu_s(with_descendants([pid]))


@contextmanager
def _web() -> Iterator[tuple[Deployment, int]]:
    """The web server alone, and its process id."""
    with (
        tempfile.TemporaryDirectory() as name,
        Deployment(Path(name), ray_address="http://127.0.0.1:9") as deployment,
    ):
        server = deployment.web()
        with Api(deployment.url) as api:
            path = {"path": f"/private/users/{USER}/datasets/x"}
            api.http.put("/api/v2/files/content", params=path, content=b"x").raise_for_status()
        yield deployment, server.pid
