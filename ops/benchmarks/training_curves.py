"""`ops/bench training --only metrics,page`: learning curves while they grow, and the page of a long one.

metrics: 50 running tasks get 1,000 points per second, and each of their pages is open: its curves are asked for every
5 s, as the page does. Meanwhile the API is asked for one task after the other as soon as its next row is written,
until the answer has it: its lag is from the end of that write to the end of that answer. On a page it is that of each
row to the first answer that has it, most of which is waiting for the page to ask.

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
from itertools import cycle
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
METRIC = "train/loss-0"
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
        return [row for pages in (0, TASKS) for row in _measure_lags(deployment, pid, writers, pages)]


def _measure_lags(deployment: Deployment, pid: int, writers: Sequence[_Writer], pages: int) -> list[Row]:
    """pages: how many are open."""
    over, busy_before_s, rows_before = threading.Event(), _busy_s(pid), sum(writer.rows for writer in writers)
    with ThreadPoolExecutor(TASKS + 2) as pool:
        began_s = time.perf_counter()
        writing = pool.submit(_write_all, writers, over)
        asking = pool.submit(_ask, deployment.url, writers, over)
        viewers = [
            pool.submit(_view, deployment.url, writer, number * RENEWED_S / TASKS, over)
            for number, writer in enumerate(writers[:pages])
        ]
        time.sleep(SECONDS)
        over.set()
        late, passed_s, busy_s = writing.result(), time.perf_counter() - began_s, _busy_s(pid) - busy_before_s
        api_lags_s = asking.result()
        answers = [answer for viewer in viewers for answer in viewer.result()]
    written = (sum(writer.rows for writer in writers) - rows_before) * METRICS / passed_s
    label = f"{TASKS} tasks, {written:.0f} points/s, {pages} pages open"
    rows = [
        (f"{label}: from the write of a point to an answer of the API that has it, p50", _ms(api_lags_s, 0.5), ""),
        (f"{label}: the same, p95 of {len(api_lags_s)}", _ms(api_lags_s, 0.95), "< 1000 ms"),
        (f"{label}: the same, longest", _ms(api_lags_s, 1), ""),
        (f"{label}: CPU of the web, share of a core", f"{busy_s / passed_s:.0%}", "< 100 %"),
        (f"{label}: seconds that were written late (busy machine)", f"{late}", ""),
    ]
    if answers:
        lags_s, took_s = [lag for lags, _ in answers for lag in lags], [took for _, took in answers]
        rows += [
            (f"{label}: to the page, p95, of which up to {RENEWED_S:.0f} s until it asks", _ms(lags_s, 0.95), ""),
            (f"{label}: answer of a page, p95 of {len(took_s)}", _ms(took_s, 0.95), ""),
        ]
    return rows


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


def _ask(url: str, writers: Sequence[_Writer], over: threading.Event) -> list[float]:
    """Of one row after the other, of each task in turn: how long until an answer of the API has it, in seconds."""
    lags_s: list[float] = []
    with httpx.Client(base_url=url, timeout=60) as client:
        for writer in cycle(writers):
            step = writer.rows
            while len(writer.written_at) <= step:
                if over.wait(0.001):
                    return lags_s
            last = -1
            while last < step:
                answer = client.get(f"/api/v2/tasks/{writer.task_id}/metrics", params={"name": METRIC, "points": 10})
                ended_s = time.perf_counter()
                last = answer.raise_for_status().json()["series"][0]["steps"][-1]
            lags_s.append(ended_s - writer.written_at[step])
    return lags_s


def _view(url: str, writer: _Writer, begins_s: float, over: threading.Event) -> list[tuple[list[float], float]]:
    """One open page. Returns of each answer the lags of the rows that it has first, and how long it took, in
    seconds."""
    answers: list[tuple[list[float], float]] = []
    over.wait(begins_s)
    seen = writer.rows - 1
    with httpx.Client(base_url=url, timeout=60) as client:
        while not over.is_set():
            began_s = time.perf_counter()
            answer = client.get(f"/ui/tasks/{writer.task_id}/metrics/live")
            ended_s = time.perf_counter()
            assert answer.status_code == 200, answer.text
            shown = max(int(step) for step in AGE.findall(answer.text))
            lags_s = [ended_s - written_s for written_s in writer.written_at[seen + 1 : shown + 1]]
            seen = max(seen, shown)
            answers.append((lags_s, ended_s - began_s))
            over.wait(max(0.0, RENEWED_S - (ended_s - began_s)))
    return answers


def _ms(values_s: list[float], share: float) -> str:
    return f"{percentile(values_s, share) * 1000:.0f} ms"


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
