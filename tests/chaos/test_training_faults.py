"""The disk of the data homes is full while tasks run, on a real disk; and the clock of the scheduler is set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.kit.sql import Database
from app.training.model import FailureKind, State
from tests.harness.faults.backend_deployment import small_disk
from tests.harness.migrated import migrated_database
from tests.harness.training.scripted_ray import USER, Bench, ScriptedRay

pytestmark = pytest.mark.slow
HOUR_S, STEP_S = 3600, 5
LINE = b"a line of the log\n"
MIB = 1 << 20


@pytest.fixture
def ray() -> ScriptedRay:
    return ScriptedRay(8)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = migrated_database(tmp_path / "db")
    yield made
    made.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "4m") as path:
        yield path


@pytest.fixture
def bench(database: Database, disk: Path, ray: ScriptedRay) -> Bench:
    return Bench(database, disk / "homes", ray, max_idle_s=60)


def fill(disk: Path) -> Path:
    ballast = disk / "of somebody else"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    return ballast


def log_of(bench: Bench, folder: str) -> bytes:
    return (bench.root / "users" / USER / "jobs" / folder / "driver.log").read_bytes()


def test_a_full_disk_of_the_logs_stops_no_task_and_what_is_missing_is_copied_later(
    bench: Bench, disk: Path, ray: ScriptedRay
) -> None:
    job = bench.running("one", 4)
    bench.tick(STEP_S)
    ballast = fill(disk)
    ray.write(job, LINE * 10_000)
    for _ in range(30):  # longer than it may be silent
        bench.tick(STEP_S)
    assert bench.state("one") is State.RUNNING
    ray.end(job)
    bench.tick(STEP_S)
    assert bench.state("one") is State.RUNNING
    ballast.unlink()
    bench.tick(STEP_S)
    assert bench.state("one") is State.SUCCEEDED and log_of(bench, job).endswith(LINE * 10_000)
    assert bench.events("one", "LOG_INCOMPLETE") == []


def test_a_disk_that_stays_full_ends_no_log_but_the_task_and_says_so(
    bench: Bench, disk: Path, ray: ScriptedRay
) -> None:
    job = bench.running("one", 8)
    bench.add("two", 8)
    ballast = fill(disk)
    ray.write(job, LINE * 10_000)
    ray.end(job)
    for _ in range(10):
        bench.tick(STEP_S)
    assert bench.state("one") is State.SUCCEEDED
    [incomplete] = bench.events("one", "LOG_INCOMPLETE")
    assert "full" in str(incomplete["reason"])
    assert bench.submitted() == [job] and not bench.task("two").is_terminal  # its folder cannot be made yet
    ballast.unlink()
    bench.tick(STEP_S)
    assert bench.submitted() == [job, "two--a01"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "step_s", [pytest.param(HOUR_S, id="forward"), pytest.param(-HOUR_S, id="back", marks=pytest.mark.exhaustive)]
)
def test_a_clock_that_is_set_stops_no_task_and_delays_none_for_long(
    database: Database, tmp_path: Path, ray: ScriptedRay, step_s: int
) -> None:
    """Its limits, measured over the step; a task that waits to be tried again; and one that waits for placement."""
    bench = Bench(database, tmp_path / "homes", ray, max_idle_s=600, retry_interval_s=60)
    limited = bench.running("limited", 2, max_run_s=1800)
    waiting = bench.running("waiting", 2)
    ray.claim(waiting)
    failing = bench.running("failing", 2)
    for _ in range(3):
        bench.tick(STEP_S)
    ray.fail(failing, "Total available GPUs 1.0 is less than total desired GPUs 2")
    bench.tick(STEP_S)
    bench.set_clock(step_s)
    for _ in range(4):
        bench.tick(STEP_S)
    assert [bench.state(name) for name in ("limited", "waiting")] == [State.RUNNING, State.RUNNING]
    bench.tick(60)
    assert bench.submitted()[-1] == "failing--a02"
    for _ in range(360):
        ray.write(limited, LINE)
        ray.write(waiting, LINE)
        bench.tick(STEP_S)
    assert bench.attempts("waiting")[0].failure_kind is FailureKind.INSUFFICIENT_RESOURCES
    if step_s > 0:
        assert bench.attempts("limited")[0].failure_kind is FailureKind.TIME_LIMIT
