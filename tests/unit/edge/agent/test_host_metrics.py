"""What a node reports of its machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.edge.agent.host_metrics import host_report, kinds_of_processes
from app.edge.cpu_use import CpuUse
from app.kit.process.spawn import signal_group, spawn
from tests.harness.until import until

KIND = "VideoJob"
BURN = """import os, sys, time
sys.stdin.readline()
os.fork()
while time.process_time() < 0.3:
    pass
time.sleep(3600)"""


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """Computes in two processes as soon as it reads a line."""
    process = spawn([sys.executable, "-c", BURN], env=os.environ, stdin=subprocess.PIPE)
    yield process
    signal_group(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.slow
def test_what_a_worker_and_its_children_use_is_told_by_kind(worker: subprocess.Popen[bytes]) -> None:
    cpu = CpuUse(is_whole=False)

    def measure() -> dict[str, float]:
        return cpu.shares(kinds_of_processes({worker.pid: KIND}))

    assert measure() == {}, "since when it was used is not known"
    assert worker.stdin is not None
    worker.stdin.write(b"\n")
    worker.stdin.flush()
    shares = list[float]()

    def both_have_computed() -> bool:
        shares.append(measure().get(KIND, 0.0))
        seconds = (cpu._seconds or {}).values()
        return len(seconds) == 2 and min(seconds) >= 0.2

    until(both_have_computed)
    assert max(shares) > 0
    until(lambda: measure() == {KIND: pytest.approx(0.0, abs=0.02)}, what="only what was used since is measured")
    until(lambda: cpu.shares({}) == {})


@pytest.mark.slow
def test_the_share_of_the_processors_is_that_since_the_report_before(tmp_path: Path) -> None:
    def burn(seconds: float) -> float:
        """Returns the share of all processors that this process has used meanwhile."""
        began, used = time.monotonic(), time.process_time()
        while time.process_time() < used + seconds:
            pass
        return seconds / (time.monotonic() - began) / (psutil.cpu_count() or 1)

    host_report(tmp_path)
    used = burn(0.3)
    assert used / 2 < host_report(tmp_path).cpu <= 1, "other programs may use more, and the kernel counts in ticks"
