"""Many viewers of one job: the job page's first byte beside 200 of them, and what 1,000 event streams cost.

Every viewer is a real connection to the real web process. The changes are made as a worker makes them: by beats.
"""

from __future__ import annotations

import asyncio
import os
import resource
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import httpx

from app.bootstrap.container import Container, assemble
from app.conversion import model
from app.conversion.model import Stage
from app.conversion.store import ProgressReport
from app.kit.clock import now, to_text
from app.kit.process import own_process
from ops.benchmarks.load import submit
from tests.harness.deployment import Deployment, percentile

FEW, MANY, CHANGES, PAGES = 200, int(os.environ.get("MODELMILL_BENCH_VIEWERS", "1000")), 20, 200
GAP_S = 0.5


def main() -> None:
    own_process.raise_limit()
    with tempfile.TemporaryDirectory() as folder, Deployment(Path(folder)) as deployment:
        web = deployment.web()
        container = assemble(deployment.settings())
        asyncio.run(_measure(deployment, web.pid, container))


async def _measure(deployment: Deployment, web_pid: int, container: Container) -> None:
    job_id = submit(container, owner="local")
    container.store.claim(job_id, model.claimed(Stage.ONNX, worker="bench"))
    before = _memory(web_pid)
    viewers = [await Viewer.open(deployment.web_port, job_id) for _ in range(FEW)]
    firsts = [await _first_byte(deployment.url, job_id) for _ in range(PAGES)]
    print(f"\njob page with {FEW} viewers: first byte p50 {percentile(firsts, 0.5):.1f} ms, ", end="")
    print(f"p95 {percentile(firsts, 0.95):.1f} ms")
    viewers += [await Viewer.open(deployment.web_port, job_id) for _ in range(MANY - FEW)]
    await asyncio.sleep(2)
    grown = (_memory(web_pid) - before) / MANY
    delays: list[float] = []
    for number in range(CHANGES):
        delays += await _change(container, job_id, number, viewers)
    alive = sum(not viewer.is_closed for viewer in viewers)
    print(f"{MANY} event streams on one web process: {grown / 1024:.0f} KiB each; {MANY - alive} dropped")
    print(
        f"change of the record → frame: p50 {percentile(delays, 0.5):.0f} ms, p99 {percentile(delays, 0.99):.0f} ms ",
        end="",
    )
    print(f"({len(delays)} frames)")
    for viewer in viewers:
        viewer.close()


class Viewer:
    """One event stream, read as it comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.seen: dict[str, float] = {}
        self.is_closed = False
        self._reading = asyncio.create_task(self._read(reader))

    @classmethod
    async def open(cls, port: int, job_id: str) -> Viewer:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        writer.write(f"GET /jobs/{job_id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        return cls(reader, writer)

    def close(self) -> None:
        self._reading.cancel()
        self.writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while line := await reader.readline():
                if b'"message": "change ' in line:
                    change = line.split(b'"message": "change ', 1)[1].split(b'"', 1)[0]
                    self.seen.setdefault(change.decode(), time.perf_counter())
        self.is_closed = True


async def _change(container: Container, job_id: str, number: int, viewers: list[Viewer]) -> list[float]:
    """Change the record once. Milliseconds until each viewer had the frame."""
    record = container.store.require(job_id)
    beat = ProgressReport(
        worker="bench",
        worker_text="{}",
        ttl_s=60,
        progress=number,
        message=f"change {number}",
        started_at=to_text(now()),
        now=to_text(now()),
        is_news=True,
    )
    started = time.perf_counter()
    container.store.beat(record, beat)
    name, deadline = str(number), started + 10
    while time.perf_counter() < deadline and any(name not in viewer.seen for viewer in viewers):
        await asyncio.sleep(0.01)
    await asyncio.sleep(GAP_S)
    return [(viewer.seen.get(name, deadline) - started) * 1000 for viewer in viewers]


async def _first_byte(url: str, job_id: str) -> float:
    async with httpx.AsyncClient(base_url=url) as client:
        started = time.perf_counter()
        async with client.stream("GET", f"/ui/jobs/{job_id}") as answer:
            assert answer.status_code == 200
            return (time.perf_counter() - started) * 1000


def _memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
